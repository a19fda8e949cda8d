"""The door to the road: nginx with TLS, which lets vehicles through to the fleet's paths of a SuperLink.

The SuperLink reads a whole request into memory, without limits of size or time. Here a request arrives completely,
within limits, before the SuperLink sees anything of it.
"""

from pathlib import Path

from mobfl.deploy.certificates import CA, SERVER, SERVER_KEY
from mobfl.deploy.guard import FLEET_PATHS
from mobfl.errors import InputError

# Flower cuts what it sends into pieces of 5 MiB, whatever the size of the model.
_MOST_BODY = "8m"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_CONFIGURATION = """\
# Written by mobfl when the station is opened: changes are lost.
pid "{folder}/nginx.pid";
error_log stderr warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    server_tokens off;
    default_type text/plain;
    {temporary}
    limit_conn_zone $binary_remote_addr zone=addresses:10m;
    upstream superlink {{ server 127.0.0.1:{superlink_port}; keepalive 64; }}
    server {{
        listen {listen} ssl;
        ssl_certificate "{home}/{server}";
        ssl_certificate_key "{home}/{server_key}";
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:sessions:10m;
        # One address may be many vehicles behind their carrier's router. Who is beyond the limit is asked to try later.
        limit_conn addresses 128;
        limit_conn_status 503;
        client_max_body_size {most_body};
        client_body_buffer_size 256k;
        large_client_header_buffers 4 8k;
        # Between two pieces, not for all: a slow link may take as long as its round lasts, a silent one is cut.
        client_header_timeout 10s;
        client_body_timeout 20s;
        send_timeout 20s;
        keepalive_timeout 75s;
        reset_timedout_connection on;
        location / {{ return 403; }}
        location ~ "^({paths})$" {{
            limit_except POST {{ deny all; }}
            proxy_pass https://superlink$uri;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host 127.0.0.1:{superlink_port};
            proxy_set_header X-Forwarded-For "";
            proxy_set_header X-Forwarded-Proto "";
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate "{home}/{ca}";
            proxy_ssl_name localhost;
            proxy_connect_timeout 5s;
            proxy_read_timeout 30s;
        }}
    }}
}}
"""


def write_proxy(home: Path, listen: str, superlink_port: int) -> Path:
    """nginx's configuration for the base station at home, in a folder of its own, which holds all that it writes."""
    if odd := set(str(home)) & set("\"'\\$;{}\n"):
        raise InputError(f"folder must have a name that nginx can read, got {sorted(odd)[0]!r} in {home}")
    folder = home / "proxy"
    folder.mkdir(exist_ok=True)
    text = _CONFIGURATION.format(
        folder=folder, home=home, listen=listen, superlink_port=superlink_port, most_body=_MOST_BODY,
        server=SERVER, server_key=SERVER_KEY, ca=CA, paths="|".join(FLEET_PATHS),
        temporary="\n    ".join(f'{kind}_temp_path "{folder}/{kind}";' for kind in _TEMPORARY),
    )  # fmt: skip
    file = folder / "nginx.conf"
    file.write_text(text, encoding="utf-8")
    return file
