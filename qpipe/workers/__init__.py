"""Scripts that run under the isolated environments' interpreters.

Each is started as ``python WORKER.py request.json result.json``; nothing here may import qpipe,
which is not installed there.
"""
