//! Which fault comes when: a function of the seed and the length.

use std::time::Duration;

/// A kind of fault. What it hits is picked when it is its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// `kill -9` of a worker.
    Kill,
    /// SIGSTOP of a worker, mostly for longer than its leases, and SIGCONT.
    Freeze,
    /// SIGTERM, as a deploy sends it.
    Deploy,
    /// One more worker.
    Start,
    /// The server is killed and started again with its data.
    RestartServer,
    /// The server answers nobody for a while.
    FreezeServer,
    /// Connections are closed.
    Cut,
    /// Connections are closed and new ones refused.
    Refuse,
    /// Nothing passes for a while.
    BlackHole,
    /// Every answer takes its time.
    Delay,
    /// The answer of a read is lost after the server has carried it out.
    LoseRead,
    /// The same of an ack.
    LoseAck,
    /// The same of a script: a claim, a dead letter, a touch, a hand-back, a renewal.
    LoseScript,
    /// The same of a publication.
    LosePublish,
    /// `SCRIPT FLUSH`.
    ForgetScripts,
    /// `CLIENT KILL` of everybody.
    KillClients,
    /// `CLIENT PAUSE`.
    PauseClients,
    /// The server has no memory for a while.
    OutOfMemory,
    /// `XGROUP DESTROY`; only where it is asked for, since it may repeat what was acked.
    DestroyGroup,
}

impl Fault {
    /// Whether a connection ends and nothing else: the next one can be made at once.
    pub(crate) fn only_ends_connections(self) -> bool {
        matches!(
            self,
            Self::Cut
                | Self::KillClients
                | Self::LoseRead
                | Self::LoseAck
                | Self::LoseScript
                | Self::LosePublish
        )
    }
}

/// One fault of the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// After the one before it.
    pub(crate) gap: Duration,
    pub(crate) fault: Fault,
    /// Which of those that it could hit.
    pub(crate) pick: usize,
    /// How long it lasts, where it lasts.
    pub(crate) hold: Duration,
}

const EVERY: [Fault; 20] = [
    Fault::Kill,
    Fault::Kill,
    Fault::Freeze,
    Fault::Deploy,
    Fault::Start,
    Fault::RestartServer,
    Fault::FreezeServer,
    Fault::Cut,
    Fault::Refuse,
    Fault::BlackHole,
    Fault::Delay,
    Fault::LoseRead,
    Fault::LoseAck,
    Fault::LoseScript,
    Fault::LoseScript,
    Fault::LosePublish,
    Fault::ForgetScripts,
    Fault::KillClients,
    Fault::PauseClients,
    Fault::OutOfMemory,
];

/// All faults of a run in rounds, each with every kind in an order of its own.
pub(crate) fn schedule(seed: u64, length: Duration, destroys_groups: bool) -> Vec<Step> {
    let mut chance = Chance(seed);
    let (mut steps, mut time) = (Vec::new(), Duration::ZERO);
    loop {
        let mut round = EVERY.to_vec();
        if destroys_groups {
            round.push(Fault::DestroyGroup);
        }
        for last in (1..round.len()).rev() {
            round.swap(last, chance.below(last as u64 + 1) as usize);
        }
        for fault in round {
            let gap = Duration::from_millis(100 + chance.below(1000));
            let longest = match fault {
                Fault::Freeze => 4000,
                Fault::BlackHole | Fault::Refuse => 2500,
                _ => 1000,
            };
            let hold = Duration::from_millis(100 + chance.below(longest));
            time += gap;
            if time > length {
                return steps;
            }
            let pick = chance.below(1000) as usize;
            steps.push(Step {
                gap,
                fault,
                pick,
                hold,
            });
        }
    }
}

/// Numbers by chance that a seed repeats (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}
