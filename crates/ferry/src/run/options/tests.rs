//! Tests of the parser, on command lines as people write them.

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn run(line: &str) -> Options {
    match parse(&words(line)) {
        Ok(Asked::Run(options)) => *options,
        other => panic!("'{line}' gives {other:?}"),
    }
}

fn wrong(line: &str) -> String {
    parse(&words(line)).expect_err(line).to_string()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_number_of_ranks_has_many_spellings() {
    for line in ["-n 3 a", "-np 3 a", "--np 3 a", "--n 3 a", "-c 3 a", "-n=3 a", "--np=3 a"] {
        assert_eq!(run(line).programs[0].ranks, Some(3), "{line}");
    }
    assert_eq!(run("a").programs[0].ranks, None);
    assert_eq!(run("-n 100000 a").programs[0].ranks, Some(100_000));
}

#[test]
fn a_rail_is_named_or_left_to_us() {
    assert_eq!(run("a").rail, RailRequest::Auto);
    assert_eq!(run("--rail udp a").rail, RailRequest::Udp);
    assert_eq!(run("--rail=fabric:tcp a").rail, RailRequest::Fabric(Some("tcp".into())));
    // `--trust-fabric` counts in any position.
    for line in ["--trust-fabric a", "--rail auto --trust-fabric a", "--trust-fabric --rail auto a"]
    {
        assert_eq!(run(line).rail, RailRequest::Trusting, "{line}");
    }
    assert_eq!(run("--rail udp --trust-fabric a").rail, RailRequest::Udp);
    let said = "--rail tcp: expected auto, udp, fabric or fabric:PROVIDER";
    assert_eq!(wrong("--rail tcp a"), said);
}

#[test]
fn who_insists_on_sealing_gets_it_or_nothing() {
    assert_eq!(run("--sealed a").rail, RailRequest::Auto);
    assert_eq!(run("--sealed --rail udp --trust-fabric a").rail, RailRequest::Udp);
    for (line, option) in [
        ("--sealed --insecure a", "--insecure"),
        ("--insecure --rail udp --sealed a", "--insecure"),
        ("--rail fabric:verbs --sealed a", "--rail fabric"),
        ("--sealed --rail fabric a", "--rail fabric"),
        ("--trust-fabric --sealed a", "--trust-fabric"),
    ] {
        let said = wrong(line);
        assert!(said.starts_with(&format!("--sealed forbids {option}, ")), "{line}: {said}");
    }
}

#[test]
fn the_first_word_without_a_dash_ends_the_options() {
    assert_eq!(run("-n 2 a -n 5 --label").programs[0].words, words("a -n 5 --label"));
    assert_eq!(run("-- -odd").programs[0].words, words("-odd"));
    assert_eq!(run("- x").programs[0].words, words("- x"));
}

#[test]
fn programs_are_separated_by_colons_and_have_their_own_options() {
    let options = run("-genv G=1 -n 1 -x A=1 a x : -n 2 -wdir /tmp b : c");
    assert_eq!(options.environment, [pair("G", "1")]);
    let ranks: Vec<_> = options.programs.iter().map(|program| program.ranks).collect();
    assert_eq!(ranks, [Some(1), Some(2), None]);
    assert_eq!(options.programs[0].words, words("a x"));
    assert_eq!(options.programs[0].environment, [pair("A", "1")]);
    assert_eq!(options.programs[1].folder.as_deref(), Some("/tmp"));
    assert!(options.programs[1].environment.is_empty());
    assert_eq!(options.programs[2].words, words("c"));
}

#[test]
fn variables_are_set_as_either_family_writes_them() {
    assert_eq!(run("-env A=1 a").programs[0].environment, [pair("A", "1")]);
    assert_eq!(run("-env A 1 a").programs[0].environment, [pair("A", "1")]);
    assert_eq!(run("-genv A 1 a").environment, [pair("A", "1")]);
    assert_eq!(run("-x A=b=c a").programs[0].environment, [pair("A", "b=c")]);
    assert_eq!(run("-x A=1 -x B=2 a").programs[0].environment.len(), 2);
    assert!(run("-x PATH a").programs[0].environment.is_empty());
    assert_eq!(run("-envnone a").programs[0].inherit, Some(Inherit::Only(Vec::new())));
    assert_eq!(run("-genvnone a : b").inherit, Inherit::Only(Vec::new()));
    assert_eq!(run("-genvlist A,B a").inherit, Inherit::Only(vec!["A".to_owned(), "B".to_owned()]));
    assert_eq!(run("-envall a").programs[0].inherit, Some(Inherit::All));
}

#[test]
fn folders_labels_files_input_and_time() {
    for line in ["-wdir /x a", "--wdir /x a", "--chdir /x a", "-wd /x a", "--wdir=/x a"] {
        assert_eq!(run(line).programs[0].folder.as_deref(), Some("/x"), "{line}");
    }
    for line in ["-l a", "--label a", "--tag-output a", "-prepend-rank a"] {
        assert!(run(line).label, "{line}");
    }
    assert_eq!(run("--output d a").files.folder.as_deref(), Some("d"));
    assert_eq!(run("-outfile-pattern o.%r a").files.out.as_deref(), Some("o.%r"));
    assert_eq!(run("--stdin none a").stdin, Stdin::None);
    assert_eq!(run("-stdin all a").stdin, Stdin::All);
    assert_eq!(run("-s 2 a").stdin, Stdin::Rank(2));
    assert_eq!(run("a").stdin, Stdin::Rank(0));
    assert_eq!(run("--timeout 1.5 a").timeout_seconds, Some(1.5));
    assert_eq!(run("-timeout 10 a").timeout_seconds, Some(10.0));
    assert!(run("--dry-run a").dry_run);
}

#[test]
fn options_of_open_mpi_are_taken() {
    let options = run(
        "--oversubscribe --allow-run-as-root --bind-to core --map-by node:PE=2 --mca btl self,tcp \
         --report-bindings -npernode 2 -np 4 ./a.out",
    );
    assert_eq!(options.programs[0].ranks, Some(4));
    assert_eq!(options.programs[0].words, ["./a.out"]);
    assert_eq!(options.ignored, ["--bind-to", "--map-by", "--mca", "--report-bindings"]);
}

#[test]
fn options_of_hydra_are_taken() {
    let options =
        run("-launcher ssh -iface eth0 -ppn 2 -bind-to core -genvall -hosts localhost -n 2 ./a");
    assert_eq!(options.programs[0].ranks, Some(2));
    assert_eq!(options.ignored, ["-launcher", "-bind-to"]);
}

#[test]
fn hosts_are_read_and_slots_count_here_too() {
    let asked = run("-hosts a:2,b -ppn 3 --rsh docker -n 4 x");
    let names: Vec<_> = asked.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!((names, asked.per_host), (vec!["a", "b"], Some(3)));
    assert_eq!(asked.rsh.as_deref(), Some("docker"));
    let here = run("--host localhost:4 -n 4 a");
    assert_eq!((here.programs[0].ranks, here.hosts[0].slots), (Some(4), Some(4)));
    assert!(here.hosts[0].is_here() && !asked.hosts[0].is_here());
    assert!(wrong("--hostfile /no/such x").contains("/no/such"));
    assert!(wrong("-hosts a:x y").contains("is not a host"));
}

#[test]
fn mistakes_are_named_with_what_is_near() {
    assert_eq!(wrong("--lable a"), "unknown option --lable; did you mean --label?");
    assert_eq!(wrong("--timout 3 a"), "unknown option --timout; did you mean --timeout?");
    assert!(wrong("--something-else a").contains("ferry run --help"));
    assert_eq!(wrong("-n"), "-n needs a value");
    assert!(wrong("-n 0 a").contains("1 or more"));
    assert!(wrong("-n four a").contains("-n four"));
    assert!(wrong("--timeout -1 a").contains("seconds"));
    assert!(wrong("--timeout nan a").contains("seconds"));
    assert!(wrong("--stdin some a").contains("none, all or a rank"));
    assert!(wrong("-configfile x").contains("':'"));
}

#[test]
fn ranks_under_gdb_are_listed_after_an_equals_sign() {
    assert_eq!(run("a").debugged, None);
    assert_eq!(run("--gdb a").debugged, Some(RankSet::All));
    assert_eq!(run("-gdb=0,2-4 -n 8 a").debugged, RankSet::parse("0,2-4"));
    assert_eq!(wrong("--gdb=x a"), "--gdb x: expected a list of ranks such as 0,2-4");
    let said = "--gdb 0,2: expected an equals sign before the ranks: --gdb=0,2";
    assert_eq!(wrong("--gdb 0,2 a"), said);
    assert_eq!(wrong("--gbd a"), "unknown option --gbd; did you mean --gdb?");
}

#[test]
fn a_rank_command_has_a_place_for_the_program() {
    let line = |command: &str| {
        let words = ["--rank-command", command, "a"].map(OsString::from);
        parse(&words)
    };
    let Ok(Asked::Run(options)) = line("valgrind -q %s") else { panic!("a command") };
    assert_eq!(options.rank_command, RankCommand::parse("valgrind -q %s"));
    for command in ["valgrind", "valgrind '%s", ""] {
        let said = line(command).expect_err(command).to_string();
        let wanted =
            "expected a command line in which %s stands for the program, such as 'valgrind %s'";
        assert_eq!(said, format!("--rank-command {command}: {wanted}"));
    }
    assert!(wrong("--gdb --rank-command=%s a").contains("leave out one of them"));
}

#[test]
fn a_program_is_needed() {
    assert!(wrong("").contains("no program"));
    assert!(wrong("-n 4").contains("no program"));
    assert!(wrong("a :").contains("':'"));
    assert!(wrong(": a").contains("':'"));
    assert!(wrong("a : -n 2 : b").contains("':'"));
}

#[test]
fn no_name_is_in_two_rows() {
    let mut names: Vec<&str> = TABLE.iter().flat_map(|row| row.names.iter().copied()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn options_are_described_as_the_help_shows_them() {
    let of =
        |name: &str| described().find(|option| option.names.contains(&name)).expect("one of ours");
    assert_eq!(of("n").value, Some("N"));
    assert_eq!((of("gdb").value, of("gdb").value_is_optional), (Some("RANKS"), true));
    assert_eq!(of("rail").value, Some("auto|udp|fabric[:PROVIDER]"));
    assert!(!of("rail").value_is_optional && of("dry-run").value.is_none());
    assert_eq!(of("help").value, None);
    // An option that takes a word has a name for it.
    for option in described() {
        let takes =
            !parse(&words(&format!("-{} a", option.names[0]))).is_ok_and(|asked| match asked {
                Asked::Run(options) => {
                    options.programs.iter().any(|program| program.words == words("a"))
                }
                Asked::Help | Asked::Version => true,
            });
        let needs = option.value.is_some() && !option.value_is_optional;
        assert_eq!(takes, needs, "{:?}", option.names);
    }
}

#[test]
fn help_has_a_line_for_each_of_ours() {
    let help = lines_of_help();
    for name in ["-np", "--label", "--output", "--stdin", "--timeout", "--dry-run", "--wdir"] {
        assert!(help.contains(name), "{name}");
    }
    assert_eq!(parse(&words("-n 2 --help")), Ok(Asked::Help));
    assert_eq!(parse(&words("--version")), Ok(Asked::Version));
}

#[test]
fn limits_reach_all_programs() {
    let options = run("--limit eager=16K -limit=budget=1M --limit eager=4096 -n 1 a : b");
    assert_eq!(options.environment, [pair("FERRY_LIMIT", "eager=4K,budget=1M")]);
    assert_eq!(
        wrong("--limit eager=1M a"),
        "--limit eager=1048576: expected 0 to 32K; ferry info --limits lists the limits"
    );
    assert_eq!(
        wrong("--limit eager a"),
        "--limit 'eager': expected NAME=BYTES, such as eager=16K; ferry info --limits lists the limits"
    );
}
