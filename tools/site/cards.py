def expand(markdown, *_): return markdown
def address(page): return ""
