"""Documents under permission: parse, chunk, index, search within a scope, versions, citations, publishing.

Import from the modules (`placet.knowledge.store`, `placet.knowledge.models`, ...): this file stays empty so that the
parser's child process starts without the database libraries.
"""
