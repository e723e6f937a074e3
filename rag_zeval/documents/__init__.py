"""Makes test sets from documents: reads their text, cuts it into chunks, and lets a model write questions."""
