//! Networks: how many switches lie between two ranks.

use serde::{Deserialize, Serialize};

/// The way of a frame from one NIC to another.
#[derive(Clone, Debug)]
pub struct Path {
    /// The latency of every way.
    pub fixed_ns: f64,
    /// What each hop adds.
    pub hop_ns: f64,
    /// How many hops there are.
    pub topology: Topology,
    /// How many of a million frames never arrive.
    pub lost_in_a_million: u64,
}

/// A network.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// One switch, however many ranks there are.
    OneSwitch,
    /// A tree of switches, of which each has half of its ports towards the ranks, and as many levels as the ranks need.
    FatTree {
        /// Ports of a switch.
        ports: u32,
    },
    /// Groups of switches. A quarter of the ports of each lead to ranks, half to all others of its group, and a quarter
    /// to other groups: each group has one link to each other.
    Dragonfly {
        /// Ports of a switch.
        ports: u32,
    },
    /// As many hops as a function says.
    #[serde(skip)]
    Function(fn(u32, u32) -> u32),
}

impl Path {
    /// A way that has a latency for each hop and loses nothing.
    pub const fn of_hops(hop_ns: f64, hops: fn(u32, u32) -> u32) -> Path {
        let topology = Topology::Function(hops);
        Path { fixed_ns: 0.0, hop_ns, topology, lost_in_a_million: 0 }
    }
}

impl Topology {
    /// The hops between two ranks: switches that a frame passes.
    pub fn hops(self, from: u32, to: u32) -> u32 {
        if let Topology::Function(hops) = self {
            return hops(from, to);
        }
        if from == to {
            return 0;
        }
        match self {
            Topology::FatTree { ports } => tree_hops(ports, from, to),
            Topology::Dragonfly { ports } => dragonfly_hops(ports, from, to),
            Topology::OneSwitch | Topology::Function(_) => 1,
        }
    }

    /// The most ranks that it can connect.
    pub fn ranks_max(self) -> u32 {
        match self {
            Topology::Dragonfly { ports } => {
                let group = group_of(ports);
                group.ranks().saturating_mul(group.count())
            }
            Topology::OneSwitch | Topology::FatTree { .. } | Topology::Function(_) => u32::MAX,
        }
    }
}

/// Up to the lowest common switch, and down again.
fn tree_hops(ports: u32, from: u32, to: u32) -> u32 {
    let down = (ports / 2).max(2);
    let (mut from, mut to, mut level) = (from / down, to / down, 1);
    while from != to {
        (from, to, level) = (from / down, to / down, level + 1);
    }
    2 * level - 1
}

/// A group of a dragonfly, balanced: ranks of a switch, switches, and links of a switch to other groups.
struct DragonflyGroup {
    switch_ranks: u32,
    switches: u32,
    switch_links: u32,
}

impl DragonflyGroup {
    fn ranks(&self) -> u32 {
        self.switch_ranks * self.switches
    }

    /// The most groups.
    fn count(&self) -> u32 {
        self.switches * self.switch_links + 1
    }

    /// The switch that has the link to another group.
    fn gateway(&self, group: u32, other: u32) -> u32 {
        let count = self.count();
        (other + count - group - 1) % count / self.switch_links
    }
}

fn group_of(ports: u32) -> DragonflyGroup {
    let quarter = (ports.div_ceil(4)).max(1);
    DragonflyGroup { switch_ranks: quarter, switches: 2 * quarter, switch_links: quarter }
}

/// The shortest way: to the switch that has the link to the other group, over it, and to the switch of the rank.
fn dragonfly_hops(ports: u32, from: u32, to: u32) -> u32 {
    let group = group_of(ports);
    let place = |rank: u32| (rank / group.ranks(), rank / group.switch_ranks % group.switches);
    let ((here, start), (there, end)) = (place(from), place(to));
    if here == there {
        return 1 + u32::from(start != end);
    }
    2 + u32::from(start != group.gateway(here, there))
        + u32::from(end != group.gateway(there, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fat_tree_is_passed_up_to_the_common_switch() {
        let tree = Topology::FatTree { ports: 8 };
        assert_eq!([1, 3, 4, 15, 16, 63, 64].map(|to| tree.hops(0, to)), [1, 1, 3, 3, 5, 5, 7]);
        assert_eq!((tree.hops(5, 5), tree.hops(64, 0)), (0, 7));
    }

    #[test]
    fn a_dragonfly_has_two_to_four_switches_between_groups() {
        let fly = Topology::Dragonfly { ports: 8 };
        // Two ranks a switch, four switches a group, nine groups.
        assert_eq!(fly.ranks_max(), 72);
        assert_eq!([1, 2, 7].map(|to| fly.hops(0, to)), [1, 2, 2]);
        for (from, to) in (0..72).flat_map(|from| (0..72).map(move |to| (from, to))) {
            let hops = fly.hops(from, to);
            assert_eq!(hops, fly.hops(to, from));
            let most = if from / 8 == to / 8 { 2 } else { 4 };
            assert!(hops <= most && (hops < 2) == (from / 2 == to / 2), "{from} to {to}: {hops}");
        }
        // The link of the first group to the second is at its first switch, and at the last one there.
        assert_eq!((fly.hops(0, 8 + 6), fly.hops(0, 8)), (2, 3));
    }

    #[test]
    fn one_switch_is_one_hop() {
        assert_eq!(Topology::OneSwitch.hops(3, 900), 1);
    }
}
