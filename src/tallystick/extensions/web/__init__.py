"""The web page: what the memory holds, who wrote it and what goes on, for people with a browser.

A page is a function from a visit to a view: plain, typed data, which a template draws and JSON shows as it is. What a
view says comes from tools and operations, asked as the visitor, so that policy decides what there is to see. It knows
HTML and HTTP; it knows no rules, and does not look into the store. Reading works without JavaScript.
"""
