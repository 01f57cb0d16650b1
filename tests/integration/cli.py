"""The command `leat`, run as a user runs it: real process, real server.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli.py PATH_TO_LEAT [PATTERN]
"""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from cli_help import (LEAT, Home, Server, equal, exits, on_terminal, run,
                      wait_for)

CANARY = "canary-7f3a91c2"
COMMANDS = ["up", "down", "status", "ping", "acl", "demo", "completion",
            "version", "help", "context", "config", "topic", "group",
            "consume", "dlq", "queue", "stream"]
VERBS = ["context ls", "context add", "context use", "context rm",
         "context show", "config show", "stream ls", "stream info",
         "stream add", "stream tail", "stream consume", "stream groups",
         "stream rm"]


# ---- words --------------------------------------------------------------

def every_command_explains_itself(h):
    for words in COMMANDS + VERBS:
        for args in ([*words.split(), "--help"], ["help", *words.split()],
                     ["-h", *words.split()]):
            p = h.run(*args)
            exits(p, 0)
            assert "usage: leat " + words in p.out, (args, p.out)
            equal(p.err, "")


def without_words_a_short_help_goes_to_stderr(h):
    p = h.run()
    exits(p, 64)
    equal(p.out, "")
    for name in COMMANDS:
        assert re.search(rf"^  {name}\s", p.err, re.M), name
    p = h.run("context")
    exits(p, 64)
    assert "context VERB" in p.err
    exits(h.run("--help"), 0)


def a_mistyped_word_gets_a_suggestion(h):
    for args, hint in (("statsu", "did you mean 'status'?"),
                       ("pnig", "did you mean 'ping'?"),
                       ("context lst", "did you mean"),
                       ("help pign", "did you mean 'ping'?"),
                       ("ping --cuont 3", "did you mean --count?"),
                       ("status --otput json", "did you mean --output?"),
                       ("--count 3 ping", "--count belongs to"),
                       ("co", "context, config, consume")):
        p = h.run(*args.split())
        exits(p, 64)
        assert hint in p.err, (args, p.err)
        assert p.err.startswith("leat: ")


def a_unique_beginning_and_an_alias_are_enough(h):
    equal(h.run("ver").out, h.run("version").out)
    exits(h.run("ctx", "list"), 0)
    exits(h.run("cont", "l"), 0)
    exits(h.run("version", "--out", "json"), 0)
    p = h.run("version", "--co", "x")
    exits(p, 64)
    assert "ambiguous" in p.err


def options_take_every_usual_form(h):
    want = h.run("version", "--output", "json").out
    for args in (["-ojson"], ["-o", "json"], ["--output=json"],
                 ["-qojson"], ["-vq", "--output=json", "--"]):
        equal(h.run("version", *args).out, want)
        if args[-1] != "--":
            equal(h.run(*args, "version").out, want)
    exits(h.run("version", "-o"), 64)
    exits(h.run("version", "-o", "xml"), 64)
    exits(h.run("version", "--", "-o"), 64)
    exits(h.run("ping", "-c", "0"), 64)
    exits(h.run("ping", "-c", "1x"), 64)
    exits(h.run("ping", "--timeout", "soon"), 64)
    exits(h.run("version", "extra"), 64)
    exits(h.run("version", "-Z"), 64)


def every_option_is_also_a_variable(h):
    exits(h.run("version", env={"LEAT_OUTPUT": "json"}), 0)
    json.loads(h.run("version", env={"LEAT_OUTPUT": "json"}).out)
    equal(h.run("version", "-o", "csv", "--no-headers").out,
          h.run("version", env={"LEAT_OUTPUT": "csv",
                                "LEAT_NO_HEADERS": "1"}).out)
    p = h.run("version", env={"LEAT_OUTPUT": "xml"})
    exits(p, 78)
    assert "LEAT_OUTPUT" in p.err
    named = 0
    for words in ["", *COMMANDS, *VERBS]:
        text = h.run(*words.split(), "--help").out
        for name in re.findall(r"^  (?:-., |    )--([a-z-]+)", text, re.M):
            named += 1
            variable = "LEAT_" + name.upper().replace("-", "_")
            # These describe a message.
            described = ("topic", "queue", "stream", "key", "type")
            assert name in ("help", *described) or \
                f"[{variable}]" in text, (words, name)
    assert named > 25, named


def bytes_that_are_no_text_are_escaped(h):
    p = subprocess.run([LEAT, b"st\xff\x1b[31m\xe2\x80\xaex"], env=h.env(),
                       capture_output=True)
    equal(p.returncode, 64)
    assert b"\\xff\\x1b[31m\\xe2\\x80\\xae" in p.stderr, p.stderr
    assert b"\x1b" not in p.stderr
    p = subprocess.run([LEAT, "ping", "-u", b"redis://\xff:1"], env=h.env(),
                       capture_output=True)
    assert p.returncode in (64, 69), p
    p.stderr.decode("utf-8")


# ---- output -------------------------------------------------------------

def every_format_is_what_it_says(h):
    h.write_config('[context.a]\nurl = "redis://one"\n'
                   '[context.b]\nurl = \'redis://t,"w"o\'\n')
    rows = json.loads(h.run("context", "ls", "-o", "json").out)
    equal([r["name"] for r in rows], ["a", "b"])
    lines = h.run("context", "ls", "-o", "ndjson").out.splitlines()
    equal([json.loads(x) for x in lines], rows)
    raw = h.run("context", "ls", "-o", "csv").stdout.decode()
    equal([r["url"] for r in csv.DictReader(io.StringIO(raw, newline=""))],
          ["redis://one", 'redis://t,"w"o'])
    tsv = h.run("context", "ls", "-o", "tsv").out.splitlines()
    equal(tsv[0].split("\t"), ["name", "current", "url"])
    table = h.run("context", "ls", "-o", "table").out.splitlines()
    assert re.match(r"name +current +url$", table[0]), table
    equal(len(table), 3)
    one = h.run("context", "show", "a", "-o", "json").out
    equal(json.loads(one)["url"], "redis://one")


def piped_output_is_tab_separated(h):
    equal(h.run("version").out.splitlines()[0], "version\tfeatures")
    equal(h.run("version").out, h.run("version", "-o", "tsv").out)


def columns_are_chosen_and_checked(h):
    h.write_config('[context.a]\nurl = "redis://one"\n')
    equal(h.run("context", "ls", "--columns", "url,name").out,
          "url\tname\nredis://one\ta\n")
    equal(h.run("context", "ls", "--columns", "name", "--no-headers").out,
          "a\n")
    equal(h.run("context", "ls", "--columns", "file", "--no-headers").out,
          h.config + "\n")
    p = h.run("context", "ls", "--columns", "nmae")
    exits(p, 64)
    assert "columns are name" in p.err


def controls_never_reach_a_terminal(h):
    h.write_config('[context.a]\nurl = "redis://h"\nuser = "\\u001b[31m\\ty"\n')
    ls = ["context", "ls", "--columns", "user", "--color=never"]
    equal(json.loads(h.run(*ls, "-o", "json").out)[0]["user"], "\x1b[31m\ty")
    equal(h.run(*ls, "-o", "csv").out, "user\r\n\x1b[31m\ty\r\n")
    equal(h.run(*ls, "-o", "tsv").out, "user\n\\x1b[31m\\ty\n")
    for form in ("table", "tsv", "csv"):
        text, code = on_terminal(h, *ls, "-o", form)
        equal(code, 0)
        assert "31m" in text and "\x1b" not in text, (form, text)


def colours_follow_the_customs(h):
    h.write_config('[context.a]\nurl = "redis://one"\n')
    ls = ["context", "ls", "-o", "table"]
    assert "\x1b" not in h.run(*ls).out
    assert "\x1b[1m" in h.run(*ls, "--color", "always").out
    assert "\x1b" in h.run(*ls, env={"CLICOLOR_FORCE": "1"}).out
    assert "\x1b" not in h.run(*ls, env={"CLICOLOR_FORCE": "1",
                                         "NO_COLOR": "1"}).out
    assert "\x1b[1mname" in on_terminal(h, "context", "ls")[0]
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"},
                {"LEAT_COLOR": "never"}):
        assert "\x1b" not in on_terminal(h, "context", "ls", env=env)[0], env
    assert "\x1b" in on_terminal(h, "context", "ls", "--color=always",
                                 env={"NO_COLOR": "1"})[0]


def output_that_does_not_arrive_is_an_error(h):
    with open("/dev/full", "w") as full:
        p = subprocess.run([LEAT, "version"], env=h.env(), stdout=full,
                           stderr=subprocess.PIPE)
    equal(p.returncode, 74)
    assert b"stdout" in p.stderr
    p = subprocess.run(["sh", "-c", '"$0" version >&-', LEAT], env=h.env(),
                       capture_output=True)
    equal(p.returncode, 74)


def results_never_go_to_the_server(h):
    """A closed stdout's number is not given to the connection."""
    server = Server(h)
    p = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" <&- >&-', LEAT, "ping",
                          "-vc", "1000", "-u", server.url], env=h.env(),
                         stderr=subprocess.PIPE)

    def files():
        where = f"/proc/{p.pid}/fd"
        try:
            return {n: os.readlink(f"{where}/{n}") for n in os.listdir(where)}
        except OSError:
            return {}
    try:
        wait_for(lambda: any(x.startswith("socket:")
                             for x in files().values()))
        equal((files()["0"], files()["1"]), ("/dev/null", "/dev/null"))
        while b"answer 1" not in p.stderr.readline():
            pass
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=20)
        equal(p.returncode, 74)
    finally:
        p.kill()
        server.close()


def a_reader_that_went_away_is_no_news(h):
    read, write = os.pipe()
    os.close(read)
    p = subprocess.run([LEAT, "help"], env=h.env(), stdout=write,
                       stderr=subprocess.PIPE)
    os.close(write)
    equal(p.returncode, 128 + signal.SIGPIPE)
    equal(p.stderr, b"")


# ---- settings -----------------------------------------------------------

def contexts_are_kept_and_comments_too(h):
    h.write_config('# mine\ntimeout = "3s" # short\n\n# old\n[context.old]\n'
                   'url = "redis://old"\n# the end\n')
    exits(h.run("context", "add", "new", "redis://new:1/2", "--user", "u"), 0)
    exits(h.run("context", "use", "new"), 0)
    show = json.loads(h.run("context", "show", "-o", "json").out)
    equal((show["url"], show["user"], show["current"]),
          ("redis://new:1/2", "u", True))
    with open(h.config) as f:
        text = f.read()
    for part in ("# mine\n", "# short", "# old\n[context.old]\n", "# the end"):
        assert part in text, text
    equal(os.stat(h.config).st_mode & 0o777, 0o600)
    equal(os.listdir(os.path.dirname(h.config)), ["config.toml"])

    exits(h.run("context", "add", "new", "redis://x"), 1)
    exits(h.run("context", "add", "new", "redis://x", "--replace"), 0)
    exits(h.run("context", "rm", "new"), 64)
    exits(h.run("context", "rm", "new", "--yes"), 0)
    exits(h.run("context", "rm", "new", "--yes"), 1)
    exits(h.run("context", "use", "new"), 1)
    with open(h.config) as f:
        left = f.read()
    assert "new" not in left and "# the end" in left, left


def a_first_context_makes_the_file(h):
    exits(h.run("context", "ls"), 0)
    exits(h.run("context", "add", "a", "-", "--use",
                stdin=b"redis://:%s@h\n" % CANARY.encode()), 0)
    equal(os.stat(h.config).st_mode & 0o777, 0o600)
    with open(h.config) as f:
        assert CANARY in f.read()
    equal(h.run("config", "show", "--no-headers").out.splitlines()[0],
          "url\tredis://:***@h")
    exits(h.run("context", "add", "b c", "redis://h"), 64)
    exits(h.run("context", "add", "b", "http://h"), 64)


def a_link_to_the_file_stays_a_link(h):
    h.write_config("")
    real = os.path.join(h.dir, "real.toml")
    os.rename(h.config, real)
    os.symlink(real, h.config)
    exits(h.run("context", "add", "a", "redis://h"), 0)
    assert os.path.islink(h.config)
    with open(real) as f:
        assert "[context.a]" in f.read()


def a_bad_file_is_told_by_line(h):
    for text, line in (("url = 3.5\n", 1), ("\nurl = \"a\n", 2),
                       ("url \"x\"\n", 1), ("[context.a]\nurl = [1]\n", 2),
                       ("[[a]]\n", 1), ("[context.a\n", 1),
                       ("# x\nurl = \"\\q\"\n", 2), ("urll = \"x\"\n", 1),
                       ("[contexts.a]\n", 1), ("url = \"a\" b\n", 1),
                       ("url = \"a\"\nurl = \"b\"\n", 2),
                       ("[context.a]\n[context.a]\n", 2),
                       ("timeout = \"soon\"\n", 1), ("output = 7\n", 1),
                       ("[context.a]\ncontext = \"b\"\n", 2),
                       ("url = \"\"\"x\"\"\"\n", 1), ("timeout = 007\n", 1)):
        h.write_config(text)
        p = h.run("config", "show")
        exits(p, 78)
        assert f"config.toml:{line}: " in p.err, (text, p.err)
    h.write_config("urll = \"x\"\n")
    assert "did you mean 'url'?" in h.run("config", "show").err


def a_password_others_can_read_is_refused(h):
    for text in (f'url = "redis://:{CANARY}@h"\n',
                 f'[context.a]\npassword = "{CANARY}"\n'):
        h.write_config(text, 0o644)
        p = h.run("config", "show")
        exits(p, 78)
        assert "chmod 600" in p.err
        h.write_config(text, 0o600)
        exits(h.run("config", "show"), 0)
    h.write_config('url = "redis://h"\n', 0o644)
    exits(h.run("config", "show"), 0)


def the_nearest_word_wins(h):
    os.makedirs(os.path.join(h.dir, "etc/leat"))
    with open(os.path.join(h.dir, "etc/leat/config.toml"), "w") as f:
        f.write('url = "redis://system"\nuser = "sys"\n')
    h.write_config('url = "redis://file"\n[context.c]\nurl = "redis://ctx"\n')

    def url(*args, **env):
        out = h.run("config", "show", "--origin", "-o", "ndjson", *args,
                    env=env).out
        rows = {r["key"]: r for r in map(json.loads, out.splitlines())}
        return rows["url"]["value"], rows["url"]["origin"]

    equal(url(), ("redis://file", "user file"))
    equal(url(LEAT_CONTEXT="c"), ("redis://ctx", "context"))
    equal(url(LEAT_CONTEXT="c", LEAT_URL="redis://env"),
          ("redis://env", "environment"))
    equal(url("--context", "c", LEAT_URL="redis://env"),
          ("redis://ctx", "context"))
    equal(url("-u", "redis://flag", "--context", "c"),
          ("redis://flag", "flag"))
    os.unlink(h.config)
    equal(url(), ("redis://system", "system file"))
    os.unlink(os.path.join(h.dir, "etc/leat/config.toml"))
    equal(url(), ("embedded:", "default"))
    exits(h.run("config", "show", "--context", "none"), 64)
    exits(h.run("config", "show", env={"LEAT_CONTEXT": "none"}), 78)
    exits(h.run("config", "show", "--config", "/none"), 78)


# ---- secrets ------------------------------------------------------------

def a_password_is_never_printed(h):
    url = f"redis://user:{CANARY}@127.0.0.1:1"
    secret = os.path.join(h.dir, "secret")
    with open(secret, "w") as f:
        f.write(CANARY + "\n")
    os.chmod(secret, 0o600)
    h.write_config(f'[context.a]\nurl = "{url}"\npassword = "{CANARY}"\n')
    runs = [(["-u", url, v, "-vv"], {}) for v in ("ping", "status", "demo")]
    runs += [([v, "-vv"], {"LEAT_URL": url}) for v in ("ping", "status")]
    runs += [(["ping", "-u", "redis://127.0.0.1:1"], {"LEAT_PASSWORD": CANARY}),
             (["ping", "-u", "redis://127.0.0.1:1"],
              {"LEAT_PASSWORD_FILE": secret}),
             (["--context", "a", "ping"], {}),
             (["--context", "a", "config", "show", "--origin", "-o", "json"],
              {"LEAT_PASSWORD": CANARY}),
             (["context", "show", "a", "-o", "json"], {}),
             (["context", "ls", "--columns", "url,password"], {}),
             (["context", "add", "b", url], {}),
             (["context", "add", "b", f"http://u:{CANARY}@x"], {}),
             ([url], {}), (["ping", url], {}), (["help", url], {}),
             (["ping", "--password", CANARY], {}),
             (["ping", f"--password={CANARY}"], {}),
             (["ping", f"--pasword={CANARY}"], {}),
             (["ping", "-u", f"redis:/u:{CANARY}@h"], {}),
             (["ping", "-u", f"redis://{CANARY}@127.0.0.1:1"], {}),
             (["ping", "-u", f"unix:///none?password={CANARY}"], {}),
             (["up", "-u", url], {}), (["completion", url], {}),
             (["config", "show", "-u", f"redis://a:{CANARY}/x@h:1"], {})]
    for args, env in runs:
        p = h.run(*args, "--timeout=1s", env=env)
        assert CANARY not in p.out + p.err, (args, env, p.out, p.err)


def a_password_leaves_the_arguments(h):
    server = Server(h, "--requirepass", CANARY)
    p = subprocess.Popen(
        [LEAT, "ping", "-vc", "1000", "-i", "100ms", "-u",
         f"{server.url}?password={CANARY}"], env=h.env(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line():
        with open(f"/proc/{p.pid}/cmdline", "rb") as f:
            return f.read()
    try:
        wait_for(lambda: b"***" in line())
        assert CANARY.encode() not in line()
        while b"answer 1" not in p.stderr.readline():
            pass
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate()
        equal(p.returncode, 128 + signal.SIGINT)
        assert out.startswith(b"url\tsent"), out
    finally:
        p.kill()
        server.close()


def a_password_is_taken_from_where_it_may_stand(h):
    server = Server(h, "--requirepass", CANARY)
    secret = os.path.join(h.dir, "secret")
    try:
        ping = ["ping", "-c", "1", "-u", server.url]
        p = h.run(*ping)
        exits(p, 77)
        assert "LEAT_PASSWORD" in p.err
        exits(h.run(*ping, env={"LEAT_PASSWORD": "wrong-one"}), 77)
        exits(h.run(*ping, env={"LEAT_PASSWORD": CANARY}), 0)
        with open(secret, "w") as f:
            f.write(CANARY + "\n")
        os.chmod(secret, 0o644)
        p = h.run(*ping, env={"LEAT_PASSWORD_FILE": secret})
        exits(p, 78)
        assert "chmod 600" in p.err
        os.chmod(secret, 0o600)
        exits(h.run(*ping, env={"LEAT_PASSWORD_FILE": secret}), 0)
        exits(h.run(*ping, "--password-file", secret,
                    env={"LEAT_PASSWORD": "wrong-one"}), 0)
        exits(h.run(*ping, "--password-file", "/none"), 78)
        os.rename(secret, os.path.join(h.dir, "leat.password"))
        exits(h.run(*ping, env={"CREDENTIALS_DIRECTORY": h.dir}), 0)

        h.write_config(f'context = "a"\n[context.a]\nurl = "{server.url}"\n'
                       f'password = "{CANARY}"\n')
        exits(h.run("ping", "-c", "1"), 0)
        # What is kept for one server does not travel to another.
        exits(h.run(*ping), 77)
    finally:
        server.close()


# ---- completion and manual ----------------------------------------------

def complete(h, *words):
    script = ('source <("$1" completion bash); shift; '
              'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _leat; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    p = subprocess.run(["bash", "-c", script, "bash", LEAT, LEAT, *words],
                       env=h.env(), capture_output=True, text=True)
    equal((p.returncode, p.stderr), (0, ""))
    return p.stdout.split()


def bash_completes_words_options_and_values(h):
    equal(complete(h, "st"), ["status", "stream"])
    equal(sorted(complete(h, "")), sorted(COMMANDS))
    equal(complete(h, "context", "u"), ["use"])
    equal(complete(h, "ping", "--co"), ["--count", "--context", "--config",
                                        "--columns", "--color"])
    equal(complete(h, "status", "-o", "nd"), ["ndjson"])
    equal(complete(h, "status", "--output", "=", "nd"), ["ndjson"])
    equal(complete(h, "status", "--output", "="),
          ["table", "json", "ndjson", "csv", "tsv"])
    equal(complete(h, "completion", ""), ["bash", "zsh", "fish"])
    equal(complete(h, "ping", "--password"), ["--password-file"])
    h.write_config('[context.prod]\nurl = "redis://h"\n')
    equal(complete(h, "context", "use", ""), ["prod"])
    equal(complete(h, "--context", "p"), ["prod"])
    os.mkdir(os.path.join(h.dir, "somewhere"))
    equal(complete(h, "up", "--dir", h.dir + "/some"),
          [h.dir + "/somewhere"])
    h.write_config("broken")
    equal(complete(h, "context", "use", ""), [])


def scripts_of_other_shells_are_sound(h):
    for shell in ("zsh", "fish"):
        p = h.run("completion", shell)
        exits(p, 0)
        assert "__complete" in p.out
        if shutil.which(shell):
            check = subprocess.run([shell, "-n", "/dev/stdin"],
                                   input=p.stdout, capture_output=True)
            equal((check.returncode, check.stderr), (0, b""))
    equal(h.run("__complete", "status", "--output=nd").out,
          "--output=ndjson\t\n")
    exits(h.run("completion", "tcsh"), 64)


def every_command_has_a_page(h):
    pages = h.run("__man").out.split()
    equal(sorted(pages), sorted(["leat"] + ["leat-" + x for x in COMMANDS]))
    source = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(source, "../../man/meson.build")) as f:
        build = f.read()
    for page in pages:
        assert f"'{page}'" in build, page
        text = h.run("__man", page)
        exits(text, 0)
        assert text.out.startswith(page + "(1)")
        if shutil.which("scdoc"):
            p = subprocess.run(["scdoc"], input=text.stdout,
                               capture_output=True)
            equal((p.returncode, p.stderr), (0, b""))
    exits(h.run("__man", "none"), 64)


def versions_agree(h):
    p = h.run("--version")
    exits(p, 0)
    equal(p.out.split()[1],
          json.loads(h.run("version", "-o", "json").out)["version"])


if __name__ == "__main__":
    sys.exit(run(__name__, ("h",), Home))
