"""Models that are asked: endpoints, folders, a script; the cache of what they said."""
