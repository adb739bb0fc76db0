def attach(cls):
    pass
