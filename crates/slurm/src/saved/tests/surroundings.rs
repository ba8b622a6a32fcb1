//! Additions of terminals, pagers, mail and chat around the output of Slurm.

use insta::assert_snapshot;

use super::{check, count};

/// Output of `sinfo` and `scontrol` for the same three nodes: two are up, and six GPUs are free.
const OUTPUTS: [(&str, &str); 4] = [
    (
        "sinfo -N -o '%N %t %G %C'",
        "NODELIST STATE GRES CPUS(A/I/O/T)\ng1 idle gpu:t4:2 0/8/0/8\ng2 idle gpu:t4:4 0/8/0/8\ng3 down gpu:t4:4 0/0/8/8\n",
    ),
    (
        "sinfo -N -O 'NodeList:|,StateLong:|,Gres:|'",
        "NODELIST|STATE|GRES|\ng1|idle|gpu:t4:2|\ng2|idle|gpu:t4:4|\ng3|down|gpu:t4:4|\n",
    ),
    (
        "scontrol show node",
        "NodeName=g1 Arch=x86_64\n   Gres=gpu:t4:2\n   State=IDLE\n\nNodeName=g2 Arch=x86_64\n   Gres=gpu:t4:4\n   State=IDLE\n\n\
         NodeName=g3 Arch=x86_64\n   Gres=gpu:t4:4\n   State=DOWN\n\n",
    ),
    (
        "sinfo --json",
        "{\n  \"nodes\": [\n    {\"name\": \"g1\", \"gres\": \"gpu:t4:2\", \"state\": [\"IDLE\"]},\n    \
         {\"name\": \"g2\", \"gres\": \"gpu:t4:4\", \"state\": [\"IDLE\"]},\n    \
         {\"name\": \"g3\", \"gres\": \"gpu:t4:4\", \"state\": [\"DOWN\"]}\n  ]\n}\n",
    ),
];

/// Checks that all outputs give the same result with surrounding text; `%c` is the command, `%t` the output.
fn reads(around: &str) {
    for (command, output) in OUTPUTS {
        let text = around.replace("%c", command).replace("%t", output);
        assert_eq!(count(&text), (3, 10, 6), "{text}");
    }
}

/// Checks that all outputs give the same result after a change.
fn reads_changed(change: impl Fn(&str) -> String) {
    for (_, output) in OUTPUTS {
        let text = change(output);
        assert_eq!(count(&text), (3, 10, 6), "{text}");
    }
}

#[test]
fn prompts_are_no_data() {
    reads("[user@host ~]$ %c\n%t[user@host ~]$ \n");
    reads("(base) user@host:~/runs$ %c\n%tuser@host:~/runs$ exit\nlogout\nConnection to host closed.\n");
    reads("[root@host ~]# %c\n%t[root@host ~]#\n");
    reads("login1$ %c\n%tlogin1$ \n");
    reads("login1% %c\n%tlogin1%\n");
    reads("host:~ user$ %c\n%t");
    reads("PS C:\\Users\\me> ssh host %c\n%t");
    reads("user@host ~> %c\n%tuser@host ~> \n");
    reads("[10:00:01 user@host ~]$ %c\n%t");
    reads("➜  ~ %c\n%t➜  ~ \n");
    reads("$ %c\n%t$ time %c\n");
    reads("%c\n\n%t");
    reads("Last login: Mon Jan  3 10:00:00 2026 from 10.0.0.1\n$ ls\ndata  runs\n$ %c\n%t");
    reads(
        "Script started on 2026-01-03 10:00:00+00:00 [TERM=\"xterm\"]\n$ %c\n%t$ exit\nScript done on 2026-01-03\n",
    );
}

#[test]
fn terminals_and_connections_end_as_they_like() {
    reads("%tConnection refused\n");
    reads("%tssh: connect to host login port 22: Connection refused\n");
    reads("%tclient_loop: send disconnect: Broken pipe\n");
    reads("%t\nreal\t0m0.031s\nuser\t0m0.004s\nsys\t0m0.003s\n");
    reads("slurm_load_ctl_conf: Warning: x\nsinfo: error: y\n%t");
    reads("\u{feff}%t");
    reads("\u{1b}]0;user@host\u{7}\u{1b}[32muser@host\u{1b}[0m:~$ %c\n\u{1b}[?2004l%t");
    reads_changed(|text| text.replace('\n', "\r\n"));
    reads_changed(|text| text.replace("gpu", "\u{1b}[1;32mgpu\u{1b}[0m"));
    reads_changed(|text| text.replace('\n', "  \n"));
    reads_changed(|text| text.replace(' ', "\u{a0}"));
}

#[test]
fn pagers_are_no_data() {
    reads("%t(END)\n");
    reads("%t~\n~\nlines 1-23/23 (END)\n");
    reads_changed(|text| text.replacen('\n', "\n--More--\n", 3));
    reads_changed(|text| text.replacen('\n', "\n--More--(42%)\n", 3));
    reads_changed(|text| text.replacen('\n', "\n--More--\r        \r", 3));
}

#[test]
fn mail_and_chat_are_no_data() {
    reads("Hello,\n\nthis is what it prints here:\n\n%t\nBest regards\nAnna\n");
    reads("```\n%t```\n");
    reads("Our cluster:\n\n```text\n$ %c\n%t```\n\nThank you!\n");
    let indented = |mark: &'static str| {
        move |text: &str| text.lines().flat_map(|line| [mark, line, "\n"]).collect::<String>()
    };
    reads_changed(indented("> "));
    reads_changed(indented(">> "));
    reads_changed(indented("> > "));
    reads_changed(indented("    "));
    reads_changed(indented("\t"));
    reads_changed(|text| format!("|\n{text}|\n"));
    reads_changed(|text| text.replacen('\n', "\n\n", 1));
    reads_changed(|text| text.replace('\n', "\n\n"));
}

#[test]
fn what_was_left_out_is_said() {
    let text = "\
[user@host ~]$ sinfo
NODELIST STATE GRES
g1 idle gpu:t4:2
--More--
See you tomorrow
g2 idle gpu:t4:2 x y
g3 idle gpu:t4:2
Connection refused
";
    assert_snapshot!(check(text), @r#"
    g1 idle t4:0/2
    g3 idle t4:0/2
    note: 5 lines were left out: line 5 "See you tomorrow" (it does not match the 3 columns), line 6 "g2 idle gpu:t4:2 x y" (it does not match the 3 columns), line 1 "[user@host ~]$ sinfo", …
    "#);
    // Many unmatched lines are lost nodes.
    let lost =
        format!("NODELIST STATE GRES\n{}{}", "g1 idle gpu:t4:2\n".repeat(9), "g2\nidle gpu:t4:2\n".repeat(5));
    assert_snapshot!(check(&lost), @"is ambiguous: only 9 of 19 lines match the 3 columns of the table; the other lines may be broken or truncated, or the table has different columns");
}

#[test]
fn a_prompt_says_which_columns_were_asked_for() {
    let lines = "a idle 2\nb idle 1\n";
    for command in [
        "sinfo -h -o '%R %t %D'",
        "sinfo -h --format='%R %t %D' | sort -u",
        "sinfo -ho \"%R %t %D\"",
        "watch /usr/bin/sinfo -h -O 'PartitionName: ,StateCompact: ,Nodes: '",
    ] {
        assert_eq!(count(&format!("$ {command}\n{lines}$ \n")), (3, 0, 0), "{command}");
    }
    // Another program changed or removed the columns.
    let refused = "$ sinfo -h -o '%R %t %D' | awk '{print $1}'\na idle 2\nb idle 1\n";
    assert_snapshot!(check(refused), @"has a table without a header line, from line 2 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'");
}

#[test]
fn reasons_to_refuse_are_true() {
    assert_snapshot!(check("STATE GRES REASON TIMESTAMP\nidle gpu:t4:8 none Unknown\n"), @r#"cannot be read: it looks like a table of sinfo without node names (NODELIST) or node counts (NODES); it begins with "STATE GRES REASON TIMESTAMP""#);
    assert_snapshot!(check("GRES|STATE|TIMESTAMP|ODD\ngpu:t4:8|idle|Unknown|x\n"), @r#"cannot be read: it looks like a table of sinfo with columns that run together, are truncated or are unknown: ODD; it begins with "GRES|STATE|TIMESTAMP|ODD""#);
    assert_snapshot!(check("REASON USER TIMESTAMP\nbroken root 2026-01-01T10:00:00\n"), @r#"cannot be read: it looks like reasons why nodes are down (sinfo -R); it begins with "REASON USER TIMESTAMP""#);
    assert_snapshot!(check("gpu idle gpu:t4:8\ncpu mix (null)\n"), @r#"has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'"#);
    assert_snapshot!(check("# a\n# b\n"), @r#"has only commands and comments (lines that begin with a prompt or #), and no output below them"#);
    assert_snapshot!(check("\n \n"), @"is empty");
}
