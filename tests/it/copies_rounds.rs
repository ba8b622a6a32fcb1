//! Rounds of copies whose files are damaged, forged, or from hsched 0.1.0, and rounds after a copy was
//! killed.

use crate::python;

/// Checks which rounds count in a folder with damaged, foreign or missing files.
#[test]
fn a_round_counts_if_it_is_whole_and_names_the_hash_of_the_one_before() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import hashlib, json, math, os, shutil, sys, tempfile
sys.path.insert(0, "templates")
from hsched_ddp.rounds import Folder

root = tempfile.TemporaryDirectory()
def place(name):
    return Folder(os.path.join(root.name, name), 1, 4, math.inf)

def content(number, before=None, **more):
    own = {"round": number, "epoch": 0, "by": [1, "a"], "members": {"1": {"token": "a", "ranges": [[0, 5]]}}, "speeds": {"1": 2.0}, "length_s": 6.0,
           "alone": None, "why": "", "worse": 0, "calls": {}, "left": [[5, 10]], "merged": {}}
    return dict(own, **more, **({} if before is None else {"before": before}))

def write(folder, name, own):
    text = own if isinstance(own, bytes) else json.dumps(own).encode()
    with open(os.path.join(folder.path, name), "wb") as file:
        file.write(text)
    return hashlib.sha256(text).hexdigest()

def three(name):
    folder = place(name)
    first = write(folder, "round-1.json", content(1, ""))
    second = write(folder, "round-2.json", content(2, first))
    return folder, first, second, write(folder, "round-3.json", content(3, second))

assert place("empty").latest() == (0, None, "")
folder, first, second, third = three("whole")
assert folder.latest() == (3, content(3, second), third)

# Files beside the chain have no effect.
for name, own in ("round-x.json", b""), ("round-999.json", content(999)), ("round-.json", b"{}"), ("round-5.json", content(5, third)), ("round-1.2.json", content(1, "")):
    write(folder, name, own)
    assert folder.latest()[0] == 3, name

# A damaged last round does not count, and is decided again once.
text = json.dumps(content(3, second)).encode()
wrong = [b"", text[:-1], text[:40], b"\xff" * 50, b"null", b"[]", b"[" * 100000, content(4, second), content(3, first), content(3), content(3, 7)]
for key in content(3):
    lacks = content(3, second)
    del lacks[key]
    wrong.append(lacks)
for key, value in {"members": {"../1": {"token": "a", "ranges": []}}, "left": [[4, 6]], "length_s": -1, "speeds": {"1": "fast"}, "by": [1], "merged": {"1": {}}}.items():
    wrong.append(dict(content(3, second), **{key: value}))
for number, own in enumerate(wrong):
    folder, first, second, third = three("damaged %d" % number)
    write(folder, "round-3.json", own)
    assert folder.latest() == (2, content(2, first), second), own
    last = content(2, first)
    assert folder.decide(content(3, second), last) == "round-3.2.json"
    assert Folder(folder.path, 2, 4, math.inf).decide(content(3, second, why="second"), last) is None
    assert folder.latest() == (3, content(3, second), third), own
    write(folder, "round-4.json", b"")
    write(folder, "round-4.2.json", b"{")
    assert folder.decide(content(4, third), content(3, second)) == "round-4.3.json" and folder.latest()[0] == 4
for number, act in enumerate((os.mkdir, os.mkfifo, lambda path: os.symlink("nowhere", path))):
    folder, first, second, third = three("no file %d" % number)
    os.unlink(folder.path + "/round-3.json")
    act(folder.path + "/round-3.json")
    assert folder.latest()[0] == 2 and folder.decide(content(3, second), content(2, first)) == "round-3.2.json"

# The chain begins with the round of the checkpoint; earlier rounds do not matter.
folder, first, second, third = three("marked")
folder.mark(2, second)
assert folder.marked() == 2
for own in b"", dict(content(1, ""), epoch=3), None:
    write(folder, "round-1.json", own) if own is not None else os.unlink(folder.path + "/round-1.json")
    assert folder.latest() == (3, content(3, second), third)
write(folder, "round-2.json", b"")
assert folder.latest() == (3, content(3, second), third)
os.unlink(folder.path + "/round-3.json")
assert folder.latest() == (2, None, second), "nothing is known of it but its hash"
assert folder.decide(content(3, second, why="anew"), None) == "round-3.json" and folder.latest()[1]["why"] == "anew"

# A damaged mark has no effect.
for own in b"", b"{", {"round": "x"}, {"round": 2, "hash": 7}, [2]:
    folder, first, second, third = three("mark")
    write(folder, "checkpoint.json", own)
    assert folder.marked() == 0 and folder.latest()[0] == 3, own

# Rounds of 0.1.0 have no hash; they count until a round has one.
folder = place("old")
write(folder, "round-1.json", content(1))
second = write(folder, "round-2.json", content(2))
write(folder, "checkpoint.json", {"round": 2})
write(folder, "round-9.json", content(9))
assert folder.marked() == 2 and folder.latest() == (2, content(2), second)
assert folder.decide(content(3, second), content(2)) == "round-3.json"
third = folder.latest()[2]
write(folder, "round-4.json", content(4))
assert folder.latest() == (3, content(3, second), third)

# Other invalid files in the folder do not count either.
folder, *_ = three("others")
for own in b"{", {}, {"token": 1, "gone": False, "waits": False}, {"token": "b", "gone": 0, "waits": False}:
    write(folder, "alive-2.json", own)
    assert list(folder.living()) == [1], own
os.mkdir(folder.path + "/round-3")
line = {"round": 3, "base": "base", "token": "a", "steps": 3, "ranges": [[0, 3]], "weights": "w", "states": None, "loss": None, "busy_s": 1.0, "calls": {}, "after": None}
now = content(3, second)
write(folder, "round-3/copy-1.json", line)
assert folder.handed_in(now, "base") == {1: line}
for more in {"steps": 4}, {"ranges": [[0, 2], [1, 2]]}, {"ranges": [[3, 6]]}, {"ranges": [[0, 10 ** 12]], "steps": 10 ** 12}, {"busy_s": math.inf}, {"calls": []}, {"token": "b"}:
    write(folder, "round-3/copy-1.json", dict(line, **more))
    assert folder.handed_in(now, "base") == {}, more
print("done")
"#;
    assert_eq!(python::run(&python, &["-"], input), "done\n");
}

/// Files are damaged or forged before copies train, and after all copies were killed: no copy fails, and
/// every step is merged once.
#[test]
fn copies_go_on_past_damaged_and_forged_rounds() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import glob, hashlib, json, os, subprocess, sys, tempfile, time

def start(number, epochs):
    own = dict(os.environ, HSCHED_COPY=str(number), HSCHED_COPIES="2", HSCHED_ROUND_DIR=rounds, HSCHED_CHECKPOINT_DIR=folder, HSCHED_COPY_ROUND_S="0.5",
               HSCHED_COPY_SILENCE_S="10", PYTHONPATH="templates", OMP_NUM_THREADS="1")
    out = open(folder + "/out-%d" % number, "a")
    return subprocess.Popen([sys.executable, "tests/it/copies_train.py", str(epochs), "0.02"], env=own, stdout=out, stderr=out)

def said():
    return [open(path).read() for path in sorted(glob.glob(folder + "/out-*"))]

def chain():
    from hsched_ddp.rounds import Folder
    own = Folder.__new__(Folder)
    own.path, number, last, base, all_rounds = rounds, 0, None, "", []
    while True:
        after = own.after(number, last, base)
        if after is None:
            return all_rounds
        number, (last, base) = number + 1, after
        all_rounds.append(last)

sys.path[:0] = ["templates", "tests/it"]
from copies_done import done_steps
from hsched_ddp import read_plain
from hsched_ddp.ranges import join
with tempfile.TemporaryDirectory() as folder:
    rounds = folder + "/rounds"
    os.mkdir(rounds)
    forged = {"round": 999, "epoch": 99, "by": [1, "a"], "members": {}, "speeds": {}, "length_s": 1, "alone": None, "why": "", "worse": 0, "calls": {}, "left": [], "merged": {}}
    for name, text in (("round-2.json", ""), ("round-x.json", ""), ("round-999.json", json.dumps(forged)), ("round-4.json", '{"round": 4')):
        with open(rounds + "/" + name, "w") as file:
            file.write(text)
    copies = [start(number, 4) for number in (1, 2)]
    assert [copy.wait(300) for copy in copies] == [0, 0], said()
    assert done_steps(chain()) == {(epoch, step): 1 for epoch in range(4) for step in range(10)}, chain()
    assert "Traceback" not in "".join(said()) and sum("round 2 is in round-2.2.json" in text for text in said()) == 1, said()

    # All copies are killed in a round, and its file is truncated. The checkpoint may already contain the
    # results that the round merged, with or without the mark.
    epochs, lost = 400, {}
    for is_marked in True, False:
        before = len(chain())
        copies = [start(number, epochs) for number in (1, 2)]
        until = time.monotonic() + 300
        while len(chain()) < before + 20 and time.monotonic() < until:
            time.sleep(0.05)
        for copy in copies:
            copy.kill()
            copy.wait()
        whole = chain()
        saved, last = read_plain(folder + "/hsched-ddp.pt"), whole[-1]
        begins = join([own for member in last["members"].values() for own in member["ranges"]] + last["left"])
        is_saved = (saved["epoch"], saved["left"]) == (last["epoch"], [[4 * begin, 4 * end] for begin, end in begins])
        if is_saved and not is_marked:  # as after a kill between the checkpoint and its mark
            with open(rounds + "/round-%d.json" % (len(whole) - 1), "rb") as file:
                base = hashlib.sha256(file.read()).hexdigest()
            with open(rounds + "/checkpoint.json", "w") as file:
                json.dump({"round": len(whole) - 1, "hash": base}, file)
        marked = json.load(open(rounds + "/checkpoint.json"))["round"] == len(whole)
        os.truncate(rounds + "/round-%d.json" % len(whole), 100)
        epochs = last["epoch"] + 2
        copies = [start(number, epochs) for number in (1, 2)]
        assert [copy.wait(300) for copy in copies] == [0, 0], said()
        assert "Traceback" not in "".join(said()), said()
        if marked:  # the chain continues from the truncated round
            with open(rounds + "/round-%d.json" % len(whole), "r+") as file:
                file.write(json.dumps(last))
        elif is_saved:  # the round was decided again, and begins where the checkpoint does
            lost.update(done_steps([whole[-2], last]))
        done = done_steps(chain())
        assert not set(done) & set(lost), (done, lost)
        done.update(lost)
        wanted = {(epoch, step): 1 for epoch in range(epochs) for step in range(10)}
        wrong = [(step, done.get(step)) for step in sorted({*done, *wanted}) if wanted.get(step) != done.get(step)]
        assert not wrong, (marked, is_saved, len(whole), wrong)
        epochs = 800
print("done")
"#;
    assert_eq!(python::run(&python, &["-"], input), "done\n");
}

/// A copy that is killed is a member of at most one later round, and every member of a round gets steps.
#[test]
fn a_killed_copy_gets_no_steps_and_is_not_waited_for_again() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import glob, json, os, re, subprocess, sys, tempfile, time
sys.path.insert(0, "tests/it")
from copies_done import done_steps

def start(number):
    own = dict(os.environ, HSCHED_COPY=str(number), HSCHED_COPIES="3", HSCHED_ROUND_DIR=rounds, HSCHED_CHECKPOINT_DIR=folder, HSCHED_COPY_ROUND_S="2",
               PYTHONPATH="templates", OMP_NUM_THREADS="1")
    out = open(folder + "/out-%d" % number, "a")
    return subprocess.Popen([sys.executable, "tests/it/copies_train.py", "12", "0.3"], env=own, stdout=out, stderr=out)

def chain():
    paths = glob.glob(rounds + "/round-*.json")
    return [json.load(open(path)) for path in sorted(paths, key=lambda path: int(re.findall(r"round-(\d+)", path)[0]))]

def said():
    return [open(path).read() for path in sorted(glob.glob(folder + "/out-*"))]

with tempfile.TemporaryDirectory() as folder:
    rounds = folder + "/rounds"
    copies = {number: start(number) for number in (1, 2, 3)}
    until = time.monotonic() + 300
    while not any(len(own["members"]) == 3 for own in chain()[2:]):
        assert time.monotonic() < until, said()
        time.sleep(0.02)
    copies[3].kill()
    killed_in = len(chain())
    assert copies[1].wait(300) == 0 and copies[2].wait(300) == 0, said()
    whole = chain()
    with_3 = [own["round"] for own in whole if "3" in own["members"]]
    assert max(with_3) <= killed_in + 1, (with_3, killed_in)
    assert all(member["ranges"] for own in whole for member in own["members"].values()), whole
    done = done_steps(whole)
    assert done == {(epoch, step): 1 for epoch in range(12) for step in range(10)}, done
print("done")
"#;
    assert_eq!(python::run(&python, &["-"], input), "done\n");
}
