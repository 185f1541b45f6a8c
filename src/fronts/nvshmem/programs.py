def files():
    return []
