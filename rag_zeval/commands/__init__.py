"""The commands of `rag-zeval`. Each module holds commands that belong together."""
