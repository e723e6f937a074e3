"""The commands of `rag-zeval`, a module each."""
