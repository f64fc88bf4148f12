"""The parts of the handbook that are made from the code, at each build.

``hook`` is what mkdocs runs. Every other module returns the text of one part: ``commands`` from the
command line, ``options`` from the table of options, ``operations`` from the admin API, ``errors``
from the error classes, ``python_api`` from the public names of ``zbk``, ``formats`` from the byte
tables in modules, and ``copies`` from documents that lie elsewhere in the repository.
"""
