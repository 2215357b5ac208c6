"""Backups in an object store: made, listed, proven, restored, followed.

    objects/<aa>/<digest>     pieces of logs, audit logs, snapshots, blobs and files, by what is in them
    manifests/<number>        one a backup: which pieces make it up, signed; the highest number is the newest
    fences/<epoch>            by whom the memory was taken over, should its machine come back

A piece is made once and shared by every backup that needs it. A manifest counts once it is there, whole; what lies in
the store beside the manifests is worth nothing. Nothing here opens a log for writing but `restore` and `follow`.
"""
