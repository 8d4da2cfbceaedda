//! Which ranks are on which host, as launchers write it: `(vector,(first,hosts,ranks),...)`.
//!
//! Each block says: `ranks` ranks on each of `hosts` hosts, from host `first` on. The blocks are gone through again
//! and again until all ranks have a place, so that a million ranks may take a dozen letters.

/// The ranks that are on the same host as `me`, itself among them, in order. `None` if the text makes no sense, or
/// gives `me` no place.
pub(super) fn neighbours(mapping: &str, me: u32, size: u32) -> Option<Vec<u32>> {
    let blocks = parse(mapping)?;
    let mut on_host = Vec::new();
    let mut rank = 0;
    'all: loop {
        for &[first, hosts, ranks] in &blocks {
            for host in first..first.checked_add(hosts)? {
                for _ in 0..ranks {
                    if rank == size {
                        break 'all;
                    }
                    on_host.push(host);
                    rank += 1;
                }
            }
        }
    }
    let mine = *on_host.get(usize::try_from(me).ok()?)?;
    Some((0..size).zip(on_host).filter(|&(_, host)| host == mine).map(|(rank, _)| rank).collect())
}

fn parse(mapping: &str) -> Option<Vec<[u32; 3]>> {
    let inner = mapping.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    for block in inner.split_terminator(')') {
        let block = block.trim_start_matches(',').strip_prefix('(')?;
        let mut numbers = block.split(',').map(|number| number.trim().parse::<u32>());
        let mut next = || numbers.next()?.ok();
        blocks.push([next()?, next()?, next()?]);
        if numbers.next().is_some() {
            return None;
        }
    }
    // Blocks without ranks would be gone through for ever.
    let places = blocks.iter().any(|&[_, hosts, ranks]| hosts > 0 && ranks > 0);
    places.then_some(blocks)
}

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
    fn nonsense_is_nothing() {
        for text in
            ["", "(vector)", "(vector,(0,1))", "(vector,(0,0,2))", "(vector,(0,1,x))", "(0,1,2)"]
        {
            assert_eq!(neighbours(text, 0, 2), None, "{text}");
        }
        assert_eq!(neighbours("(vector,(0,1,2))", 2, 2), None, "a rank that there is not");
        assert_eq!(neighbours("(vector,(4294967295,2,1))", 0, 2), None, "hosts without a number");
    }
}
