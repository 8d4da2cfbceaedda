//! The command line as a whole, for manual pages and for completion by shells.
//!
//! Both are made from what parses the command line: clap's definition, and for `ferry run` its own table of options.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Args, Command, ValueEnum, ValueHint};
use ferrywire_host::ErrorCode;

use crate::out;
use crate::run::{self, DescribedOption};

/// Prints the manual page of a command, in the format of man(1).
///
/// To read it, run: ferry man run | man -l -
#[derive(Args)]
pub(crate) struct Man {
    /// The command, such as `run`, or `sim soak`. Without it, the page is that of `ferry`.
    command: Vec<String>,
}

/// Prints a script by which a shell completes the words of command lines.
#[derive(Args)]
pub(crate) struct Completion {
    shell: Shell,
    /// The command to complete: `ferry`, or one of its other names.
    #[arg(long, value_name = "COMMAND", default_value = "ferry")]
    of: Completed,
}

/// A shell.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A command whose words are completed.
#[derive(Clone, Copy, ValueEnum)]
enum Completed {
    Ferry,
    Mpiexec,
    Mpirun,
}

/// A file below `share` that belongs to the command.
pub(crate) struct CommandFile {
    pub(crate) path: PathBuf,
    pub(crate) content: CommandFileContent,
}

/// What is in such a file, or what it is a link to.
pub(crate) enum CommandFileContent {
    Text(String),
    Link(String),
}

impl Man {
    pub(crate) fn run(&self, ferry: Command) -> ExitCode {
        let mut command = complete(ferry);
        for name in &self.command {
            // Other names of `ferry run` and of the compiler wrappers have no page of their own.
            let name = match name.as_str() {
                "ferry" => continue,
                "mpiexec" | "mpirun" => "run",
                "mpicc" => "cc",
                "mpicxx" | "mpic++" => "cxx",
                name => name,
            };
            let Some(found) = command.find_subcommand(name).cloned() else {
                let whole = command.get_display_name().unwrap_or("ferry").replace('-', " ");
                let names: Vec<_> = shown(&command).map(Command::get_name).collect();
                let known = match names[..] {
                    [] => "it has no subcommands".to_owned(),
                    _ => format!("expected one of {}", names.join(", ")),
                };
                let why = format_args!("{whole} has no command {name}: {known}");
                eprintln!("ferry man: {}", ErrorCode::OPTION_VALUE.ends(why));
                return ExitCode::from(2);
            };
            command = found;
        }
        out::line(page(command).trim_end());
        ExitCode::SUCCESS
    }
}

impl Completion {
    pub(crate) fn run(&self, ferry: Command) -> ExitCode {
        let command = complete(ferry);
        let script = match self.of {
            Completed::Ferry => script(self.shell, command, "ferry"),
            Completed::Mpiexec => script(self.shell, launcher(), "mpiexec"),
            Completed::Mpirun => script(self.shell, launcher(), "mpirun"),
        };
        out::line(script.trim_end());
        ExitCode::SUCCESS
    }
}

/// The files below `share` that belong to the command: manual pages, and completions for three shells.
pub(crate) fn files(ferry: Command) -> Vec<CommandFile> {
    let command = complete(ferry);
    let mut files = Vec::new();
    let mut open = vec![command.clone()];
    while let Some(command) = open.pop() {
        open.extend(shown(&command).cloned());
        let name = command.get_display_name().unwrap_or("ferry").to_owned();
        let content = CommandFileContent::Text(page(command));
        files.push(CommandFile { path: format!("man/man1/{name}.1").into(), content });
    }
    for (name, target) in
        [("mpiexec", "run"), ("mpirun", "run"), ("mpicc", "cc"), ("mpicxx", "cxx")]
    {
        let content = CommandFileContent::Link(format!("ferry-{target}.1"));
        files.push(CommandFile { path: format!("man/man1/{name}.1").into(), content });
    }
    for name in ["ferry", "mpiexec", "mpirun"] {
        let whole = || if name == "ferry" { command.clone() } else { launcher() };
        for (shell, path) in [
            (Shell::Bash, format!("bash-completion/completions/{name}")),
            (Shell::Zsh, format!("zsh/site-functions/_{name}")),
            (Shell::Fish, format!("fish/vendor_completions.d/{name}.fish")),
        ] {
            let content = CommandFileContent::Text(script(shell, whole(), name));
            files.push(CommandFile { path: path.into(), content });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// The subcommands that help shows, without `help` itself.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

/// The whole definition, with the options of `ferry run`.
fn complete(ferry: Command) -> Command {
    let mut command = ferry.mut_subcommand("run", |_| launcher());
    command = command.disable_help_subcommand(true);
    command.build();
    command
}

/// The manual page of a command.
fn page(command: Command) -> String {
    let mut page = Vec::new();
    let name = command.get_display_name().unwrap_or("ferry").to_uppercase();
    let man = clap_mangen::Man::new(command).title(name).manual("Ferrywire");
    let man = man.source(concat!("Ferrywire ", env!("CARGO_PKG_VERSION")));
    man.render(&mut page).expect("memory can be written to");
    String::from_utf8_lossy(&page).into_owned()
}

fn script(shell: Shell, mut command: Command, name: &str) -> String {
    use clap_complete::aot::{Shell as Known, generate};
    let shell = match shell {
        Shell::Bash => Known::Bash,
        Shell::Zsh => Known::Zsh,
        Shell::Fish => Known::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The definition of `ferry run`, from its table of options.
fn launcher() -> Command {
    let program = Arg::new("program")
        .value_name("program")
        .help("The program, its arguments, and more programs after ':'")
        .value_hint(ValueHint::CommandWithArguments)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .num_args(1..)
        .required(true);
    Command::new("run")
        .about(run::ABOUT)
        .override_usage(format!("ferry run {}", run::USAGE))
        .after_long_help(run::MORE_HELP.trim())
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(run::described().map(|option| argument(&option)))
        .arg(program)
}

/// An option of `ferry run` as clap describes options. Every option may have one dash or two; two are shown.
fn argument(option: &DescribedOption) -> Arg {
    let mut argument = Arg::new(option.names[0]).help(option.help);
    for name in option.names {
        let letter = name.chars().next().filter(|_| name.chars().count() == 1);
        argument = match letter {
            Some(letter) if argument.get_short().is_none() => argument.short(letter),
            Some(letter) => argument.visible_short_alias(letter),
            None if argument.get_long().is_none() => argument.long(*name),
            None => argument.visible_alias(*name),
        };
    }
    let Some(value) = option.value else {
        // Nothing is parsed by this definition, so that help and version need not act.
        return argument.action(ArgAction::SetTrue);
    };
    argument = argument.value_name(value).action(ArgAction::Append);
    if option.value_is_optional {
        argument = argument.num_args(0..=1).require_equals(true);
    }
    let words: Vec<&'static str> = value.split('|').collect();
    if words.len() > 1 && words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase())) {
        return argument.value_parser(PossibleValuesParser::new(words));
    }
    argument.value_hint(match value {
        "FILE" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        "COMMAND" => ValueHint::CommandString,
        "A,B:4" => ValueHint::Hostname,
        _ => ValueHint::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_launcher_is_in_its_page_and_its_completions() {
        let page = page(launcher());
        let bash = script(Shell::Bash, launcher(), "mpiexec");
        for option in run::described() {
            // The first name, after one dash or two.
            let name = option.names[0];
            let spelled = if name.len() == 1 { format!("-{name}") } else { format!("--{name}") };
            assert!(page.contains(&spelled.replace('-', "\\-")), "{spelled} in the page");
            assert!(bash.contains(&spelled), "{spelled} in the completion");
        }
        assert!(page.contains("exit code is that of the first rank that failed"), "{page}");
    }
}
