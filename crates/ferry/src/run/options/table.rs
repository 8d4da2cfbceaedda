//! All options that `ferry run` accepts: its own, and those of MPICH's and Open MPI's launchers.
//!
//! Names are without dashes. A row with a help text is our own option; the others are here so that existing
//! command lines keep working.

/// One option.
pub(super) struct OptionRow {
    pub(super) names: &'static [&'static str],
    pub(super) meaning: Meaning,
    /// How `--help` writes the option.
    pub(super) shown: &'static str,
    /// The help text. Rows without one are not shown by `--help`.
    pub(super) help: &'static str,
}

/// What an option does.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    Ranks,
    Environment,
    GlobalEnvironment,
    Export,
    InheritAll,
    InheritNone,
    InheritList,
    GlobalInheritAll,
    GlobalInheritNone,
    GlobalInheritList,
    Folder,
    Label,
    Output,
    OutPattern,
    ErrPattern,
    Stdin,
    Timeout,
    DryRun,
    Help,
    Version,
    /// Asks for what is the case anyway.
    Fine,
    /// Has no meaning here; `values` words follow.
    Ignored {
        values: usize,
    },
    Hosts,
    HostFile,
    PerHost,
    Rsh,
    Ports,
    Interface,
    Net,
    Insecure,
    Sealed,
    TrustFabric,
    Rail,
    /// When ranks that make no progress are reported.
    HangTimeout,
    /// What happens to a job whose ranks wait for each other for ever.
    OnDeadlock,
    /// Limits of the NIC.
    Limit,
    /// Where the facts are written that a verdict was found from.
    WhyFile,
    /// What is recorded about the job.
    Trace,
    Stats,
    /// Mistakes in the use of MPI are looked for.
    Check,
    Gdb,
    RankCommand,
    /// What happens to the other ranks when one dies.
    OnDeath,
    /// The other ranks go on, as Open MPI and MPICH spell it; `values` words follow.
    FaultTolerant {
        values: usize,
    },
    Unsupported {
        instead: &'static str,
    },
}

const fn ours(
    names: &'static [&'static str],
    meaning: Meaning,
    shown: &'static str,
    help: &'static str,
) -> OptionRow {
    OptionRow { names, meaning, shown, help }
}

const fn theirs(names: &'static [&'static str], meaning: Meaning) -> OptionRow {
    OptionRow { names, meaning, shown: "", help: "" }
}

pub(super) const TABLE: &[OptionRow] = &[
    ours(&["n", "np", "c"], Meaning::Ranks, "-n N, -np N", "start N ranks of the program (1)"),
    ours(
        &["x"],
        Meaning::Export,
        "-x NAME=VALUE",
        "set a variable for this program; it inherits all others",
    ),
    ours(&["env"], Meaning::Environment, "-env NAME=VALUE", "the same as -x"),
    ours(
        &["genv"],
        Meaning::GlobalEnvironment,
        "-genv NAME=VALUE",
        "set a variable for all programs",
    ),
    ours(
        &["hosts", "host", "H"],
        Meaning::Hosts,
        "--hosts A,B:4",
        "the hosts of the job, and how many ranks each takes",
    ),
    ours(
        &["hostfile", "machinefile", "f"],
        Meaning::HostFile,
        "--hostfile FILE",
        "the same from a file, one host per line",
    ),
    ours(
        &["ppn", "perhost", "npernode", "N"],
        Meaning::PerHost,
        "-ppn N",
        "place N ranks on each host before the next one",
    ),
    ours(
        &["rsh", "launcher-exec", "plm_rsh_agent"],
        Meaning::Rsh,
        "--rsh COMMAND",
        "how to run a command on a host: COMMAND HOST ... (ssh)",
    ),
    ours(
        &["port-range"],
        Meaning::Ports,
        "--port-range LOW-HIGH",
        "the range from which each host takes its one port",
    ),
    ours(&["iface"], Meaning::Interface, "--iface NAME", "the network interface between hosts"),
    ours(&["cidr"], Meaning::Net, "--cidr ADDRESS/BITS", "the network between hosts"),
    ours(
        &["insecure"],
        Meaning::Insecure,
        "--insecure",
        "neither encrypt nor authenticate frames between hosts: for measuring",
    ),
    ours(
        &["rail"],
        Meaning::Rail,
        "--rail auto|udp|fabric[:PROVIDER]",
        "the rail between hosts; ferry info lists them (auto, which is udp)",
    ),
    ours(
        &["trust-fabric"],
        Meaning::TrustFabric,
        "--trust-fabric",
        "let auto use messaging hardware, without encryption and authentication",
    ),
    ours(
        &["sealed"],
        Meaning::Sealed,
        "--sealed",
        "refuse to start unless all frames between hosts are encrypted and authenticated",
    ),
    ours(
        &["wdir", "wd", "chdir"],
        Meaning::Folder,
        "--wdir DIR",
        "start this program in DIR; a relative path of the program is resolved there",
    ),
    ours(
        &["label", "l", "tag-output", "prepend-rank"],
        Meaning::Label,
        "-l, --label",
        "begin each line of output with its rank",
    ),
    ours(
        &["output", "output-filename"],
        Meaning::Output,
        "--output DIR",
        "write output to DIR/rank.N.out and DIR/rank.N.err",
    ),
    ours(
        &["stdin", "s"],
        Meaning::Stdin,
        "--stdin none|all|RANK",
        "which ranks read the standard input (0)",
    ),
    ours(
        &["timeout"],
        Meaning::Timeout,
        "--timeout SECONDS",
        "end the job after this time, with exit code 124",
    ),
    ours(
        &["hang-timeout"],
        Meaning::HangTimeout,
        "--hang-timeout SECONDS",
        "if no rank makes a call for this time, report where they are",
    ),
    ours(
        &["on-deadlock"],
        Meaning::OnDeadlock,
        "--on-deadlock end|report",
        "when all ranks wait for each other for ever, end with exit code 35, or only report (end)",
    ),
    ours(
        &["why-file"],
        Meaning::WhyFile,
        "--why-file FILE",
        "with a report on ranks that hang or fail, write all that is known of them, as JSON",
    ),
    ours(
        &["check"],
        Meaning::Check,
        "--check",
        "look for mistakes in the use of MPI, and end with exit code 36 if there are any",
    ),
    ours(
        &["on-death"],
        Meaning::OnDeath,
        "--on-death end|continue",
        "when a rank dies, end the others, or tell them and continue (end)",
    ),
    ours(
        &["limit"],
        Meaning::Limit,
        "--limit NAME=BYTES,...",
        "set limits of all ranks, such as eager=32K; ferry info --limits lists them",
    ),
    ours(
        &["trace"],
        Meaning::Trace,
        "--trace FILE",
        "record all calls and messages, and write them to FILE for Perfetto and ferry report",
    ),
    ours(
        &["stats"],
        Meaning::Stats,
        "--stats[=FILE]",
        "after the run, print where ranks spent their time in MPI, or write it to FILE as JSON",
    ),
    ours(
        &["gdb"],
        Meaning::Gdb,
        "--gdb[=RANKS]",
        "run these ranks, or all, under gdb, each in a terminal of its own",
    ),
    ours(
        &["rank-command"],
        Meaning::RankCommand,
        "--rank-command COMMAND",
        "run 'COMMAND' for each rank; %s is its program, %r its rank",
    ),
    ours(&["dry-run"], Meaning::DryRun, "--dry-run", "print what would be started, and stop"),
    ours(&["help", "h", "?"], Meaning::Help, "-h, --help", "print this help"),
    ours(&["version", "V", "info"], Meaning::Version, "-V, --version", "print the version"),
    // Other spellings of the same, and options that ask for what is the case anyway.
    theirs(&["outfile-pattern", "outfile"], Meaning::OutPattern),
    theirs(&["errfile-pattern", "errfile"], Meaning::ErrPattern),
    theirs(&["envall"], Meaning::InheritAll),
    theirs(&["envnone"], Meaning::InheritNone),
    theirs(&["envlist"], Meaning::InheritList),
    theirs(&["genvall"], Meaning::GlobalInheritAll),
    theirs(&["genvnone"], Meaning::GlobalInheritNone),
    theirs(&["genvlist"], Meaning::GlobalInheritList),
    theirs(&["oversubscribe", "allow-run-as-root"], Meaning::Fine),
    theirs(
        &["configfile", "app"],
        Meaning::Unsupported {
            instead: "write the programs on the command line, separated by ':'",
        },
    ),
    theirs(&["enable-recovery", "disable-auto-cleanup"], Meaning::FaultTolerant { values: 0 }),
    theirs(&["with-ft"], Meaning::FaultTolerant { values: 1 }),
    // Open MPI: no word follows.
    theirs(
        &[
            "report-bindings",
            "display-map",
            "display-allocation",
            "display-devel-map",
            "nooversubscribe",
            "no-oversubscribe",
            "use-hwthread-cpus",
            "bind-to-core",
            "bind-to-socket",
            "bind-to-none",
            "bynode",
            "byslot",
            "pernode",
            "nolocal",
            "quiet",
            "q",
            "v",
            "verbose",
            "get-stack-traces",
            "report-state-on-timeout",
            "merge-stderr-to-stdout",
            "timestamp-output",
            "tv",
        ],
        Meaning::Ignored { values: 0 },
    ),
    // Open MPI: one word follows.
    theirs(
        &[
            "bind-to",
            "map-by",
            "rank-by",
            "npersocket",
            "cpus-per-proc",
            "cpus-per-rank",
            "cpu-set",
            "cpu-list",
            "slot-list",
            "rankfile",
            "rf",
            "prefix",
            "tune",
            "am",
            "path",
            "personality",
            "display",
            "prtemca-file",
            "default-hostfile",
            "runtime-options",
        ],
        Meaning::Ignored { values: 1 },
    ),
    theirs(&["mca", "gmca", "prtemca", "pmixmca", "omca"], Meaning::Ignored { values: 2 }),
    // Hydra: no word follows.
    theirs(
        &[
            "disable-hostname-propagation",
            "enable-x",
            "disable-x",
            "print-all-exitcodes",
            "print-rank-map",
            "usize-local",
            "skip-launch-node",
        ],
        Meaning::Ignored { values: 0 },
    ),
    // Hydra: one word follows.
    theirs(
        &[
            "launcher",
            "bootstrap",
            "bootstrap-exec",
            "rmk",
            "binding",
            "membind",
            "topolib",
            "localhost",
            "demux",
            "ckpoint-interval",
            "ckpoint-prefix",
            "gpus-per-proc",
            "prepend-pattern",
            "usize",
            "arch",
            "nameserver",
            "order-nodes",
            "pmi-port",
            "hostlist",
        ],
        Meaning::Ignored { values: 1 },
    ),
];

/// The option with its dashes, for suggestions.
pub(super) fn spelled(name: &'static str) -> &'static str {
    // Names that are not in the table are returned without dashes.
    SPELLED.iter().find(|spelled| spelled.trim_start_matches('-') == name).copied().unwrap_or(name)
}

/// Frequent options with their usual dashes.
const SPELLED: &[&str] = &[
    "-n",
    "-np",
    "-x",
    "-env",
    "-genv",
    "--wdir",
    "--chdir",
    "-l",
    "--label",
    "--tag-output",
    "--prepend-rank",
    "--output",
    "--stdin",
    "--timeout",
    "--on-death",
    "--dry-run",
    "--help",
    "--version",
    "--oversubscribe",
    "--allow-run-as-root",
    "--bind-to",
    "--map-by",
    "--mca",
    "--hosts",
    "--hostfile",
    "--rsh",
    "--hostfile",
    "-ppn",
    "-envall",
    "-genvall",
    "--report-bindings",
    "-launcher",
    "--iface",
    "--rail",
    "--gdb",
    "--trace",
    "--stats",
    "--rank-command",
];
