"""`rag-zeval evaluate`: scores cases by metrics, writes result rows, and counts what they cost."""
