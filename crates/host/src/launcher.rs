//! Finds out, from whatever started this process, which rank it is, and which others there are, and where.
//!
//! Our own launcher is reached on a socket ([`crate::bootstrap`]). Others offer a *kvs* (key-value store), in which
//! ranks leave values for each other, and know which ranks are on which host; they differ in protocol. A process
//! without a launcher is a job of one. A process that was started as one of several by something whose protocol we do
//! not know must stop: otherwise each rank would silently do the work of all.
//!
//! | file | what it is |
//! |---|---|
//! | `kvs.rs` | what every kvs can do |
//! | `kvs_bootstrap.rs`, `host_record.rs` | how ranks bootstrap through a kvs; what hosts tell each other in it |
//! | `pmi.rs` | PMI-1, of MPICH's launchers and Slurm, on an inherited socket or a port |
//! | `pmix.rs` | PMIx, of Open MPI's launchers and Slurm, in a library that is loaded on demand |
//! | `layout.rs`, `hex.rs` | which ranks are on which host; bytes as hexadecimal digits |

#[cfg(fuzzing)]
pub(crate) mod fuzzed;
mod hex;
mod host_record;
mod kvs;
mod kvs_bootstrap;
mod layout;
mod pmi;
mod pmix;

use std::fmt;

use crate::bootstrap;
pub(crate) use kvs::{Kvs, KvsError};
pub(crate) use kvs_bootstrap::{Bootstrapped, bootstrap_by_kvs};

/// How this process was started.
pub(crate) enum Started {
    /// Without a launcher, or as the only rank.
    Alone,
    /// By a launcher with a kvs.
    Kvs(Box<dyn Kvs>),
}

/// Why one of several ranks cannot join its job.
#[derive(Debug)]
pub enum LauncherError {
    /// The launcher does not answer as it should.
    Kvs(KvsError),
    /// The process is one of several, and its launcher offers no protocol that we know.
    NoWay {
        /// The launcher.
        launcher: &'static str,
        /// How many ranks it started.
        ranks: u32,
        /// What the user can do.
        way_out: &'static str,
    },
}

impl fmt::Display for LauncherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LauncherError::Kvs(error) => error.fmt(f),
            LauncherError::NoWay { launcher, ranks, way_out } => write!(
                f,
                "{launcher} started {ranks} ranks, but offers no protocol by which they can find each other; \
                 {way_out}"
            ),
        }
    }
}

impl std::error::Error for LauncherError {}

/// The variable by which the environment names a job, if it does.
pub(crate) fn named_by(read: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let names = [bootstrap::VARIABLE, "PMIX_NAMESPACE", "PMI_FD", "PMI_PORT"];
    names.into_iter().find(|name| read(name).is_some())
}

/// Finds out how this process was started. `read` reads the environment.
pub(crate) fn find(read: impl Fn(&str) -> Option<String>) -> Result<Started, LauncherError> {
    if read("PMIX_NAMESPACE").is_some() && read("PMIX_RANK").is_some() {
        let kvs = pmix::open(&read).map_err(LauncherError::Kvs)?;
        return Ok(Started::Kvs(Box::new(kvs)));
    }
    if read("PMI_FD").is_some() || read("PMI_PORT").is_some() {
        let kvs = pmi::open(&read).map_err(LauncherError::Kvs)?;
        return Ok(Started::Kvs(Box::new(kvs)));
    }
    match one_of_several(&read) {
        Some(no_way) => Err(no_way),
        None => Ok(Started::Alone),
    }
}

/// Launchers that only say how many ranks they started: the variable, the launcher, and what to do instead.
const SILENT: &[(&str, &str, &str)] = &[
    (
        "SLURM_STEP_NUM_TASKS",
        "Slurm's srun",
        "use `srun --mpi=pmi2` or `srun --mpi=pmix`, or start `ferry run` in the allocation",
    ),
    (
        "OMPI_COMM_WORLD_SIZE",
        "Open MPI's mpirun",
        "use an mpirun that sets PMIX_NAMESPACE (Open MPI 5), or `ferry run`",
    ),
    (
        "PMI_SIZE",
        "a PMI launcher",
        "it sets PMI_SIZE but neither PMI_FD nor PMI_PORT, so use `ferry run` or MPICH's mpiexec",
    ),
    ("PALS_SIZE", "HPE Cray PALS", "use its PMIx or PMI-1 option, or `ferry run`"),
    ("FLUX_JOB_SIZE", "flux", "use `flux run -o pmi=simple` or `-o pmi=pmix`, or `ferry run`"),
    ("JSM_NAMESPACE_SIZE", "IBM's jsrun", "use its PMIx, or `ferry run`"),
    ("MV2_COMM_WORLD_SIZE", "MVAPICH's mpirun_rsh", "use `ferry run` or mpiexec.hydra"),
];

fn one_of_several(read: impl Fn(&str) -> Option<String>) -> Option<LauncherError> {
    SILENT.iter().find_map(|&(variable, launcher, way_out)| {
        let ranks = read(variable)?.trim().parse().ok().filter(|&ranks| ranks > 1)?;
        Some(LauncherError::NoWay { launcher, ranks, way_out })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Started, LauncherError> {
        find(|name| {
            let value = variables.iter().find(|(known, _)| *known == name);
            value.map(|&(_, value)| value.to_owned())
        })
    }

    #[test]
    fn without_a_launcher_or_with_one_rank_a_process_is_alone() {
        for variables in [&[][..], &[("SLURM_STEP_NUM_TASKS", "1")], &[("SLURM_NTASKS", "4")]] {
            assert!(matches!(found(variables), Ok(Started::Alone)), "{variables:?}");
        }
    }

    #[test]
    fn one_of_several_stops_with_a_sentence_that_names_the_launcher() {
        for &(variable, launcher, _) in SILENT {
            let error = found(&[(variable, "4")]).err().expect("it must not run alone").to_string();
            assert!(error.contains(launcher) && error.contains("4 ranks"), "{error}");
        }
    }
}
