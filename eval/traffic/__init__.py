"""A body of scored chats: how good, what goes wrong, where, since when, and which ones to read."""
