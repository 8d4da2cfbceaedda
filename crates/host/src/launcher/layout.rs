//! Which ranks are on which host, as launchers write it: `(vector,(first,hosts,ranks),...)`.
//!
//! Each block says: `ranks` ranks on each of `hosts` hosts, from host `first` on. A single number is one rank on that
//! host. `[...]xN` repeats what is in the brackets N times. The list starts over until all ranks have a host, so that a
//! million ranks may take a dozen letters.

/// The ranks on the same host as `me`, itself among them, in order. `None` if the text is malformed, or does not place
/// `me`.
pub(super) fn neighbours(mapping: &str, me: u32, size: u32) -> Option<Vec<u32>> {
    let inner = mapping.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
    let (blocks, rest) = list(inner, true)?;
    // Blocks without ranks would repeat for ever.
    let places = blocks.iter().any(|&[_, hosts, ranks]| hosts > 0 && ranks > 0);
    if !rest.is_empty() || !places || me >= size {
        return None;
    }
    let mut on_host = Vec::new();
    'all: loop {
        // A block without ranks may have any number of hosts: skip it.
        for &[first, hosts, ranks] in blocks.iter().filter(|[_, _, ranks]| *ranks > 0) {
            for host in first..first.checked_add(hosts)? {
                for _ in 0..ranks {
                    if on_host.len() == size as usize {
                        break 'all;
                    }
                    on_host.push(host);
                }
            }
        }
    }
    let mine = *on_host.get(me as usize)?;
    Some((0..).zip(on_host).filter(|&(_, host)| host == mine).map(|(rank, _)| rank).collect())
}

/// Parses blocks that commas separate, and returns the rest of the text. Repetitions do not nest.
fn list(mut text: &str, repeats: bool) -> Option<(Vec<[u32; 3]>, &str)> {
    let mut blocks: Vec<[u32; 3]> = Vec::new();
    loop {
        if let Some(inside) = text.strip_prefix('[').filter(|_| repeats) {
            let (repeated, rest) = list(inside, false)?;
            let (times, rest) = number(rest.strip_prefix("]x")?)?;
            if times > TIMES_MAX || repeated.len() * times as usize > BLOCKS_MAX {
                return None;
            }
            (0..times).for_each(|_| blocks.extend(&repeated));
            text = rest;
        } else if let Some(inside) = text.strip_prefix('(') {
            let (first, rest) = number(inside)?;
            let (hosts, rest) = number(rest.strip_prefix(',')?)?;
            let (ranks, rest) = number(rest.strip_prefix(',')?)?;
            blocks.push([first, hosts, ranks]);
            text = rest.strip_prefix(')')?;
        } else {
            let (host, rest) = number(text)?;
            blocks.push([host, 1, 1]);
            text = rest;
        }
        if blocks.len() > BLOCKS_MAX {
            return None;
        }
        match text.strip_prefix(',') {
            Some(more) => text = more,
            None => return Some((blocks, text)),
        }
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// More blocks, and more repetitions, than any launcher writes.
const BLOCKS_MAX: usize = 1 << 20;
const TIMES_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::neighbours;

    #[test]
    fn blocks_and_rounds_are_understood() {
        assert_eq!(neighbours("(vector,(0,1,2))", 1, 2), Some(vec![0, 1]));
        assert_eq!(neighbours("(vector,(0,2,2))", 2, 4), Some(vec![2, 3]));
        // One after another on two hosts, again and again.
        assert_eq!(neighbours("(vector,(0,2,1))", 1, 5), Some(vec![1, 3]));
        assert_eq!(neighbours("(vector,(0,2,1),(2,1,3))", 3, 5), Some(vec![2, 3, 4]));
        assert_eq!(neighbours("(vector,(0,1,4),(0,1,2))", 5, 6), Some(vec![0, 1, 2, 3, 4, 5]));
    }

    #[test]
    fn numbers_alone_and_repetitions_are_understood() {
        assert_eq!(neighbours("(vector,0)", 0, 1), Some(vec![0]));
        assert_eq!(neighbours("(vector,(0,1,3),1)", 3, 4), Some(vec![3]));
        assert_eq!(neighbours("(vector,[(0,2,1)]x2)", 1, 4), Some(vec![1, 3]));
        assert_eq!(neighbours("(vector,[(0,1,2),1]x2,0)", 6, 7), Some(vec![0, 1, 3, 4, 6]));
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in [
            "",
            "(vector)",
            "(vector,)",
            "(vector,(0,1))",
            "(vector,(0,0,2))",
            "(vector,(0,1,x))",
            "(0,1,2)",
            "(vector,[0)",
            "(vector,[0]x)",
            "(vector,[0]x4294967295)",
            "(vector,[[0]x2]x2)",
        ] {
            assert_eq!(neighbours(text, 0, 2), None, "{text}");
        }
        assert_eq!(neighbours("(vector,(0,1,2))", 2, 2), None, "a rank that there is not");
        assert_eq!(neighbours("(vector,(4294967295,2,1))", 0, 2), None, "hosts without a number");
    }
}
