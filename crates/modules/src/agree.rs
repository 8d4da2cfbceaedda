//! What ranks that load a module together must agree on.

use std::hash::{DefaultHasher, Hasher};

use crate::Trouble;

/// Checks that all ranks could start a module, and from the same code; otherwise returns why not. Collective: all ranks
/// call it, and none returns before all have called.
///
/// `least` returns the minimum over all ranks, element by element.
pub fn agree<E>(
    rank: u32,
    trouble: Option<&Trouble>,
    code: &[u8],
    least: impl Fn([u64; 3]) -> Result<[u64; 3], E>,
) -> Result<Result<(), String>, E> {
    const NOBODY: u64 = u64::MAX;
    let rank = u64::from(rank);
    let print = fingerprint(code);
    let troubled = if trouble.is_some() { rank } else { NOBODY };
    let [troubled, smallest, largest] = least([troubled, print, !print])?;
    if let Some(trouble) = trouble {
        return Ok(Err(trouble.to_string()));
    }
    if troubled != NOBODY {
        return Ok(Err(format!("rank {troubled} failed; its own error says why")));
    }
    if smallest == !largest {
        return Ok(Ok(()));
    }
    // The first rank with the smallest fingerprint and the first without: one of them is rank 0.
    let mut first = [0, NOBODY, NOBODY];
    first[if print == smallest { 1 } else { 2 }] = rank;
    let [_, with, without] = least(first)?;
    Ok(Err(format!("rank {} passed different code from rank 0", with.max(without))))
}

/// A hash of code, comparable among ranks that run the same program.
fn fingerprint(code: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(code);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::sync::{Barrier, Mutex};

    use super::agree;
    use crate::{BadSetting, Trouble};

    /// The results at ranks that load these codes; None is a rank that has failed.
    fn outcomes(codes: &[Option<&[u8]>]) -> Vec<Result<(), String>> {
        let kvs = [const { Mutex::new([u64::MAX; 3]) }; 2];
        let all_here = Barrier::new(codes.len());
        std::thread::scope(|scope| {
            let ranks: Vec<_> = codes
                .iter()
                .zip(0..)
                .map(|(code, rank)| {
                    let (kvs, all_here) = (&kvs, &all_here);
                    scope.spawn(move || {
                        let round = Cell::new(0);
                        let least = |mine: [u64; 3]| {
                            let kvs = &kvs[round.replace(round.get() + 1)];
                            let mut seen = kvs.lock().unwrap();
                            for (place, number) in seen.iter_mut().zip(mine) {
                                *place = number.min(*place);
                            }
                            drop(seen);
                            all_here.wait();
                            Ok::<_, Infallible>(*kvs.lock().unwrap())
                        };
                        let trouble = Trouble::Setting(BadSetting {
                            name: "FERRY_MODULE_FUEL",
                            value: "none".into(),
                        });
                        let trouble = code.is_none().then_some(&trouble);
                        agree(rank, trouble, code.unwrap_or_default(), least).unwrap()
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_with_the_same_code_agree() {
        assert_eq!(outcomes(&[Some(b"a".as_slice()); 4]), vec![Ok(()); 4]);
    }

    #[test]
    fn a_rank_with_other_code_is_named() {
        let why = Err("rank 2 passed different code from rank 0".to_owned());
        assert_eq!(outcomes(&[Some(b"a"), Some(b"a"), Some(b"b"), Some(b"c")]), vec![why; 4]);
    }

    #[test]
    fn a_rank_that_could_not_is_named_to_the_others() {
        let outcomes = outcomes(&[Some(b"a"), None, Some(b"b")]);
        let named = Err("rank 1 failed; its own error says why".to_owned());
        assert_eq!((&outcomes[0], &outcomes[2]), (&named, &named));
        assert!(outcomes[1].is_err() && outcomes[1] != named);
    }
}
