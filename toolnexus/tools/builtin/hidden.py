"""What a command in a sandbox does not see of the files of its host: keys, and the sockets of services.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator

from toolnexus.tools.builtin.programs import lies_in

_HOME = (
    # keys and passwords of this machine and of its networks
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".vault-token", ".netrc"),
    *(
        ".git-credentials",
        ".config/git/credentials",
        ".config/op",
        ".config/sops",
        ".config/age",
        ".Xauthority",
    ),
    *(".ICEauthority",),
    # clouds, containers and databases
    *(".aws", ".azure", ".oci", ".kube", ".docker", ".dockercfg", ".terraform.d", ".fly", ".s3cfg", ".boto"),
    *(".config/gcloud", ".config/doctl", ".config/rclone", ".config/containers", ".config/heroku"),
    *(".databrickscfg", ".cloudflared", ".config/ngrok", ".my.cnf", ".pgpass", ".mylogin.cnf"),
    # package indexes and code hosts
    *(".npmrc", ".yarnrc.yml", ".pypirc"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".local/share/gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml"),
    *(".gradle/gradle.properties", ".composer/auth.json", ".config/composer/auth.json", ".config/gh"),
    *(".config/hub", ".config/glab-cli", ".config/github-copilot"),
    # models and the agents that use them
    *(".claude*", ".config/claude", ".codex", ".gemini", ".huggingface/token", ".cache/huggingface/token"),
    *(".cache/huggingface/stored_tokens", ".kaggle", ".local/share/jupyter/runtime"),
    # browsers and mail
    *(".mozilla", ".thunderbird", ".librewolf", ".config/google-chrome*", ".config/chromium"),
    *(
        ".config/vivaldi",
        ".config/microsoft-edge*",
        ".config/BraveSoftware",
        ".config/opera",
        "snap/firefox",
        "snap/chromium",
    ),
    # what was typed
    *(".*_history", ".histfile", ".lesshst", ".viminfo", ".local/share/fish/fish_history"),
)
"""Below a home folder."""

_SYSTEM = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh/ssh_host_*_key"),
    *("/etc/krb5.keytab", "/etc/ssl/private", "/etc/NetworkManager/system-connections", "/etc/wireguard"),
)
_NAMED_BY = (
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "KUBECONFIG", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "DOCKER_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "NETRC"),
    *("PGPASSFILE", "PASSWORD_STORE_DIR", "NPM_CONFIG_USERCONFIG", "HISTFILE"),
)
"""Variables that say where such files are instead; some name several."""

_SOCKETS = (
    *("/var/lib/lxd", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/incus", "/var/lib/docker"),
    *("/var/lib/containerd", "/var/lib/libvirt", "/var/snap/docker/common"),
)
_HOME_SOCKETS = (
    *(".colima", ".lima", ".rd", ".orbstack", ".minikube"),
    ".local/share/containers/podman/machine",
)
"""Whoever reaches a service that starts containers or machines is not in a sandbox any more."""

_TABLE = "/proc/net/unix"


def hidden_places(root: str | None) -> Iterator[str]:
    """The paths, links resolved, of what is there of all that; some may lie in others.

    A socket that somebody listens at in `root` is the root's own.
    """
    homes = _homes()
    patterns = [os.path.join(glob.escape(home), name) for home in homes for name in (*_HOME, *_HOME_SOCKETS)]
    for pattern in (*patterns, *_SYSTEM, *_SOCKETS):
        for path in glob.iglob(pattern) if "*" in pattern else (pattern,):
            if os.path.lexists(path):
                yield os.path.realpath(path)
    for name in _NAMED_BY:
        for path in os.environ.get(name, "").split(os.pathsep):
            if os.path.isabs(path):
                yield os.path.realpath(path)
    yield from (path for path in _bound_sockets() if not lies_in(path, root))


def _homes() -> list[str]:
    """Where programs look for the home folder: in the environment, and in the list of users."""
    found = [os.path.expanduser("~")]
    try:
        import pwd

        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    except (ImportError, KeyError):
        pass
    return list(dict.fromkeys(home for home in found if os.path.isabs(home) and home != "/"))


def _bound_sockets() -> Iterator[str]:
    """The sockets in the file system that somebody listens at now."""
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as table:
            paths = {fields[7].rstrip("\n") for line in table if len(fields := line.split(None, 7)) > 7}
    except OSError:
        return
    for path in sorted(paths):
        try:
            if os.path.isabs(path) and stat.S_ISSOCK(os.stat(path).st_mode):
                yield os.path.realpath(path)
        except (OSError, ValueError):
            continue
