// No page needs a script of its own.
