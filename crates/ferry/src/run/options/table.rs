//! Every option that `ferry run` knows, of its own and of MPICH's and Open MPI's launchers.
//!
//! Names stand without dashes. A row with a help text is ours; the others are here so that the
//! command lines people have keep working.

/// One option.
pub(super) struct OptionRow {
    pub(super) names: &'static [&'static str],
    pub(super) meaning: Meaning,
    /// How `--help` writes the option.
    pub(super) shown: &'static str,
    /// What `--help` says. Empty: not shown.
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
    /// Asks for what is so anyway.
    Fine,
    /// Of no meaning here; so many words follow.
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
    /// What becomes of the others when a rank dies.
    OnDeath,
    /// They go on, as others write it; so many words follow.
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
        "set a variable for this program; all others are exported as they are",
    ),
    ours(&["env"], Meaning::Environment, "-env NAME=VALUE", "the same"),
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
        "the same, one host a line",
    ),
    ours(
        &["ppn", "perhost", "npernode", "N"],
        Meaning::PerHost,
        "-ppn N",
        "each host takes N ranks before the next one",
    ),
    ours(
        &["rsh", "launcher-exec", "plm_rsh_agent"],
        Meaning::Rsh,
        "--rsh COMMAND",
        "how a host is reached: COMMAND HOST ... (ssh)",
    ),
    ours(
        &["port-range"],
        Meaning::Ports,
        "--port-range LOW-HIGH",
        "where hosts open their one port each",
    ),
    ours(&["iface"], Meaning::Interface, "--iface NAME", "the interface that ranks talk by"),
    ours(&["cidr"], Meaning::Net, "--cidr ADDRESS/BITS", "the network that ranks talk by"),
    ours(
        &["insecure"],
        Meaning::Insecure,
        "--insecure",
        "frames between hosts are neither sealed nor authenticated: for measuring",
    ),
    ours(
        &["rail"],
        Meaning::Rail,
        "--rail auto|udp|fabric[:PROVIDER]",
        "what hosts talk by; ferry info says what there is (auto: udp, which is sealed)",
    ),
    ours(
        &["trust-fabric"],
        Meaning::TrustFabric,
        "--trust-fabric",
        "auto may take hardware by libfabric, where frames are not sealed",
    ),
    ours(
        &["sealed"],
        Meaning::Sealed,
        "--sealed",
        "do not start unless all frames between hosts are sealed",
    ),
    ours(
        &["wdir", "wd", "chdir"],
        Meaning::Folder,
        "--wdir DIR",
        "start this program in DIR; a relative program is looked up there",
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
        "who reads the standard input (0)",
    ),
    ours(
        &["timeout"],
        Meaning::Timeout,
        "--timeout SECONDS",
        "end the job after that time, with exit code 124",
    ),
    ours(
        &["on-death"],
        Meaning::OnDeath,
        "--on-death end|continue",
        "when a rank dies, end all others (end), or tell them and go on",
    ),
    ours(&["dry-run"], Meaning::DryRun, "--dry-run", "print what would be started, and stop"),
    ours(&["help", "h", "?"], Meaning::Help, "-h, --help", "print this"),
    ours(&["version", "V", "info"], Meaning::Version, "-V, --version", "print the version"),
    // What others have for the same, or for what is so anyway.
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
            instead: "write the programs on the command line, with ':' between",
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

/// The option as one writes it: one dash for a letter, two for a word.
pub(super) fn spelled(name: &'static str) -> &'static str {
    // The few that are suggested often have their usual spelling; the rest are themselves.
    SPELLED.iter().find(|spelled| spelled.trim_start_matches('-') == name).copied().unwrap_or(name)
}

/// Names with dashes, for suggestions.
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
];
