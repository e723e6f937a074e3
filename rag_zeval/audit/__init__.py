"""The judge against people: what they are asked to label, and how far both agree."""
