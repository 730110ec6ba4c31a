"""Chat completions as somebody else's words: requests that a caller wrote, and replies for a caller.

What it is: the shapes of the public API, in and out. What it is not: a request to an endpoint, see
`models/openai_request.py`. Above: `engine/translate.py`. Below: core.
"""
