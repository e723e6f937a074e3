"""What servers answer to a chat request: a completion, an error in one of its forms, how much they read."""
