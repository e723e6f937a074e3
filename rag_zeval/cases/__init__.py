"""What people have in files: questions, what was retrieved for them, and the answers of their systems."""
