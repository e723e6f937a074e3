from rag_zeval.cli import main

main()
