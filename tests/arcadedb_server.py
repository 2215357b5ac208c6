"""ArcadeDB with its Bolt port, for `tests.cypher_engines`: a process of its own, which ends with its standard input.

python -m tests.arcadedb_server DIRECTORY BOLT_PORT HTTP_PORT PASSWORD DATABASE…
"""

from __future__ import annotations

import sys

from arcadedb_embedded.server import ArcadeDBServer


def main(directory: str, bolt_port: str, http_port: str, password: str, *databases: str) -> None:
    server = ArcadeDBServer(
        root_path=directory,
        root_password=password,
        config={
            "host": "127.0.0.1",
            "http_port": int(http_port),
            "bolt_port": int(bolt_port),
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        },
        jvm_kwargs={"heap_size": "512m"},
    )
    server.start()
    for each in databases:
        server.create_database(each)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
