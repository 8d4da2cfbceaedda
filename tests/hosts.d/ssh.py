"""Jobs by real ssh, and the output for hosts that are slow or cannot be reached."""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import time

from deaths import Survivor
from network import FERRY, ROOT, compiled, found_processes, run

# The most time until an unreachable host is reported: it is tried three times.
SSH_SECONDS = 20

# The most time until a job whose cable is cut ends, and until its remains end when the cable is back: the kernel's
# retries decide.
CUT_SECONDS = 30
HEALED_SECONDS = 60
CUT_SUMS = 800

SSHD = """\
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""

# The user's ssh configuration: aliases, and known host keys. `changed` has a different key from before.
SSH = """\
Host near
    HostName {near}
Host far
    HostName {far}
Host silent
    HostName {far}
    Port 2222
Host off
    HostName 10.78.0.99
Host changed
    HostName {far}
    HostKeyAlias changed
Host *
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""


def ssh(network, folder, report):
    """Jobs by real ssh, from the first host to the last two."""
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if not sshd or not shutil.which("ssh"):
        print("no sshd: jobs by ssh are not tested")
        return
    # The directory of sshd's unprivileged part.
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    folder = folder / "ssh"
    folder.mkdir(mode=0o700)
    for key in ("host_key", "other_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / key], check=True)
    near, far = (f"10.78.0.{len(network.hosts) - 1}", f"10.78.0.{len(network.hosts)}")
    key, other = ((folder / f"{name}_key.pub").read_text().strip() for name in ("host", "other"))
    (folder / "known_hosts").write_text(f"{near} {key}\n{far} {key}\nchanged {other}\n")
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))
    (folder / "config").write_text(SSH.format(folder=folder, near=near, far=far))
    servers = [subprocess.Popen(["ip", "netns", "exec", host, sshd, "-D", "-e", "-f", folder / "sshd_config"],
                                stdin=subprocess.DEVNULL, stderr=open(folder / f"{host}.log", "w"))
               for host in network.hosts[-2:]]
    try:
        by_ssh(network, folder, report)
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def by_ssh(network, folder, report):
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "messages.c")

    def command(hosts, ferry=FERRY):
        return ["ip", "netns", "exec", network.hosts[0], str(ferry), "run", "--rsh", f"ssh -F {folder}/config",
                "--hosts", hosts, "-n", "4", str(program)]

    deadline = time.monotonic() + 10
    check = ["ip", "netns", "exec", network.hosts[0], "ssh", "-F", str(folder / "config")]
    while any(subprocess.run([*check, host, "true"], capture_output=True).returncode for host in ("near", "far")):
        if time.monotonic() > deadline:
            report.tell("ssh: servers", False, "cannot be reached")
            print("".join(log.read_text() for log in folder.glob("*.log")))
            return
        time.sleep(0.1)
    good, seconds, _ = run(command("near,far"), report)
    report.tell("ssh: aliases of the user's configuration", good, f"{seconds:.2f} s")

    # A ferry that the other hosts do not have: they do not see this mount.
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    hidden = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$1" "$2"; shift 2; exec "$@"', "sh",
              str(FERRY.parent), str(elsewhere)]
    trials = [
        ("no such name", command("near,nowhere.invalid"),
         ["cannot reach nowhere.invalid", "ssh: Could not resolve hostname nowhere.invalid"]),
        ("nobody listens", command("near,silent"), ["cannot reach silent", "port 2222: Connection refused"]),
        ("nobody there", command("near,off"), ["cannot reach off", "No route to host"]),
        ("another host key", command("near,changed"), ["cannot reach changed", "Host key verification failed"]),
        ("no ferry there", hidden + command("near,far", elsewhere / "ferry"),
         ["cannot start the daemon on ", "No such file or directory", "install the same ferry there"]),
    ]
    for name, words, wanted in trials:
        begun = time.monotonic()
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SSH_SECONDS)
            said = done.stderr
            # The host, the step and ssh's own message; and the command, so that a user can try it.
            missing = [text for text in [*wanted, f"`ssh -F {folder}/config"] if text not in said]
            good = done.returncode == 1 and not missing
        except subprocess.TimeoutExpired:
            good, said, missing = False, "", [f"an end within {SSH_SECONDS} s"]
        report.tell(f"ssh: {name}", good, f"{time.monotonic() - begun:.2f} s")
        if report.verbose or not good:
            print(said, "".join(f"missing: {text}\n" for text in missing), sep="", end="")
    cut_off(network, folder, report)


def cut_off(network, folder, report):
    """Pulls a cable that carries both ssh and messages. The launcher cannot reach the other side: it ends, or goes on,
    and the other side does the same when it is reconnected, or notices before."""
    lossy, shrink = (compiled(folder, ROOT / "tests" / "hosts.d" / f"{name}.c") for name in ("lossy", "shrink"))
    ferry = ["ip", "netns", "exec", network.hosts[0], str(FERRY), "run", "--rsh", f"ssh -F {folder}/config", "--hosts", "near,far",
             "-n", "4"]
    far = len(network.hosts) - 1
    job = subprocess.Popen([*ferry, str(lossy), "60"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    job.stdout.readline()
    begun = time.monotonic()
    with network.cut(far):
        try:
            said, _ = job.communicate(timeout=CUT_SECONDS)
        except subprocess.TimeoutExpired:
            job.kill()
            said = job.communicate()[0] + f"not over after {CUT_SECONDS} s\n"
        ended = time.monotonic() - begun
    good = job.returncode not in (0, None) and ended < CUT_SECONDS
    report.tell("ssh: cut off, the job ends", good, f"after {ended:.1f} s")
    if report.verbose or not good:
        print(said[-3000:])
    with Survivor([*ferry, "--on-death", "continue", str(shrink), str(CUT_SUMS), "1000"], 4) as job:
        with network.cut(far):
            wrong = job.judged({2, 3}, 4, CUT_SUMS)
    report.tell("ssh: cut off, survivors go on", not wrong, wrong)
    if report.verbose or wrong:
        print(job.said[-3000:])
    # The launcher's connections were closed while the host was cut off.
    healed = time.monotonic()
    while (left := found_processes(f"{FERRY}\0daemon")) and time.monotonic() < healed + HEALED_SECONDS:
        time.sleep(0.1)
    report.tell("ssh: nothing is left when the cable is back", not left, f"after {time.monotonic() - healed:.1f} s {left or ''}")
    for daemon in left:
        os.kill(daemon, signal.SIGKILL)



SLOW_RSH = """#!/bin/sh
case $1 in
{slow}) sleep 2 ;;
{bad}) sleep 1; echo "no road leads there" >&2; exit 255 ;;
esac
exec ip netns exec "$@"
"""


def tables(network, folder, report):
    """A job whose last host is slow, and one whose last host is unreachable, with a terminal and without."""
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "hello.c")
    first, slow, bad = network.hosts[0], network.hosts[-1], "nowhere"
    rsh = folder / "slow_rsh"
    rsh.write_text(SLOW_RSH.format(slow=slow, bad=bad))
    rsh.chmod(0o755)
    for other, wanted, code in ((slow, f"is being connected by {rsh}", 0), (bad, "was not reached in try 2", 1)):
        command = [str(FERRY), "run", "--rsh", str(rsh), "--hosts", f"{first},{other}", "-n", "2", str(program)]
        ended, shown = on_terminal(command)
        # The last drawing stays only if the job has failed.
        screen = shown.rsplit("\x1b[J", 1)[-1]
        good = ended == code and "has joined" in shown and wanted in shown
        good = good and ("has joined" in screen) == bool(code)
        quiet = subprocess.run(command, capture_output=True, text=True)
        good = good and quiet.returncode == code and "has joined" not in quiet.stdout + quiet.stderr
        report.tell(f"table of hosts, one is {'slow' if not code else 'not reached'}", good)
        if report.verbose or not good:
            print(shown, quiet.stderr, sep="")


def on_terminal(command):
    """The exit code of a command, and all that it writes to its own terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.execv(command[0], command)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            piece = b""  # Linux reports the closed other side this way.
        if not piece:
            break
        shown += piece
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")
