//! Message passing for Rust programs: typed, safe, asynchronous, and testable without a launcher.
//!
//! A job is a set of *ranks*: processes that run the same program, share no memory and send each other messages.
//! Ranks are numbered from 0.
//!
//! ```
//! # fn main() -> Result<(), ferrywire::Error> {
//! let world = ferrywire::init()?;
//! println!("rank {} of {}", world.rank(), world.size());
//! # Ok(())
//! # }
//! ```
//!
//! [`init`] joins the job that the launcher started (`ferry run -n 4 program`); without a launcher it makes a job of
//! one rank. [`local`] runs a program with any number of ranks, as threads of one process, so `cargo test` needs no
//! launcher.
//!
//! # Messages
//!
//! A message has a target rank, a tag that you choose, and a buffer of [`Plain`] items. A receive names the source
//! rank and the tag, or accepts [`ANY`].
//!
//! ```
//! use ferrywire::ANY;
//!
//! ferrywire::local(3, |world| {
//!     if world.rank() == 0 {
//!         for _ in 1..world.size() {
//!             let (name, status) = world.receive_vec::<u8>(ANY, 7).unwrap();
//!             assert_eq!(name, format!("rank {}", status.source).as_bytes());
//!         }
//!     } else {
//!         world.send(format!("rank {}", world.rank()).as_bytes(), 0, 7).unwrap();
//!     }
//! });
//! ```
//!
//! A struct with plain fields can be sent as it is if it derives [`Plain`]; anything that serde can serialise is sent
//! by [`send_value`](Comm::send_value).
//!
//! # Nonblocking operations
//!
//! A nonblocking operation makes progress while the program computes. In a [`scope`](Comm::scope), operations use
//! borrowed buffers and allocate nothing per message; the scope returns when all of them are complete. A [`Request`]
//! owns its buffer and is a `Future`:
//!
//! ```
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     struct Unpark(std::thread::Thread);
//! #     impl std::task::Wake for Unpark {
//! #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
//! #     }
//! #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
//! #     let mut context = std::task::Context::from_waker(&waker);
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         match future.as_mut().poll(&mut context) {
//! #             std::task::Poll::Ready(result) => return result,
//! #             std::task::Poll::Pending => std::thread::park(),
//! #         }
//! #     }
//! # }
//! ferrywire::local(2, |world| {
//!     let other = 1 - world.rank();
//!     block_on(async {
//!         let received = world.irecv::<f64>(2, other, 0)?;
//!         world.isend(vec![1.0, 2.0], other, 0)?.await?;
//!         let (items, _) = received.await?;
//!         assert_eq!(items, [1.0, 2.0]);
//!         Ok::<_, ferrywire::Error>(())
//!     })
//!     .unwrap();
//! });
//! ```
//!
//! # Collectives
//!
//! All ranks of a communicator call its collectives, in the same order.
//!
//! ```
//! use ferrywire::Operation;
//!
//! let largest = ferrywire::local(4, |world| {
//!     let mut value = (world.rank() * 7) % 5;
//!     world.allreduce(&mut value, Operation::Max).unwrap();
//!     value
//! });
//! assert_eq!(largest, [4, 4, 4, 4]);
//! ```
//!
//! [`split`](Comm::split) and [`dup`](Comm::dup) create further communicators. A message sent in one communicator is
//! never received in another. The ranks of a [`Cartesian`] communicator are on a grid.
//!
//! # Windows
//!
//! A [`Window`] is memory of all ranks that each of them reads and writes without the others: see
//! [`window`](Comm::window).
//!
//! ```
//! use ferrywire::LockKind::Shared;
//!
//! ferrywire::local(4, |world| {
//!     let counter = world.window::<u64>(1).unwrap();
//!     let ticket = counter.lock(0, Shared).unwrap().fetch_add(0, 1).unwrap();
//!     assert!(ticket < 4);
//!     counter.free().unwrap();
//! });
//! ```
//!
//! A put can raise a counter at its target, which the target waits for, or which starts a message or another put there:
//! see [`Counters`].
//!
//! # Files
//!
//! A [`File`] is open at all ranks, which read and write it together or alone. A [`FileView`] says which items of it a
//! rank sees.
//!
//! ```
//! use ferrywire::{File, FileView};
//!
//! # let path = std::env::temp_dir().join(format!("ferrywire-files-{}", std::process::id()));
//! ferrywire::local(4, |world| {
//!     // Every fourth number is of this rank.
//!     let view = FileView::strided(1, 4).after(8 * u64::from(world.rank()));
//!     let file = File::create(world, &path).unwrap().set_view::<u64>(&view).unwrap();
//!     file.write_all(&[u64::from(world.rank()); 100]).unwrap();
//!     file.close().unwrap();
//! });
//! assert_eq!(std::fs::read(&path).unwrap().len(), 4 * 100 * 8);
//! # std::fs::remove_file(&path).unwrap();
//! ```
//!
//! # Programs that start programs
//!
//! A [`Command`] starts a program while the job runs. Its ranks are a world of their own; an [`InterComm`] connects them
//! to those that started them. Programs that were started apart connect at a [`Port`].
//!
//! ```no_run
//! use ferrywire::{ANY, Command};
//!
//! # fn main() -> Result<(), ferrywire::Error> {
//! let world = ferrywire::init()?;
//! match world.parent() {
//!     None => {
//!         let program = std::env::current_exe().expect("the path of this program");
//!         let workers = Command::new(program).ranks(4).spawn(&world)?;
//!         for _ in 0..workers.remote_size() {
//!             let (square, status) = workers.receive_one::<u32>(ANY, 0)?;
//!             println!("worker {} says {square}", status.source);
//!         }
//!     }
//!     Some(parent) => parent.send(&world.rank().pow(2), 0, 0)?,
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! An [`Error`] prints the call and its arguments, why it failed and what to do:
//!
//! ```
//! ferrywire::local(2, |world| {
//!     if world.rank() == 0 {
//!         world.send(&[1u64, 2, 3], 1, 7).unwrap();
//!     } else {
//!         let error = world.receive(&mut [0u64; 1], 0, 7).unwrap_err();
//!         assert_eq!(
//!             error.to_string(),
//!             "receive of 8 bytes from rank 0, tag 7: the message has 24 bytes; \
//!              receive into a longer buffer or use receive_vec [FW0104]",
//!         );
//!     }
//! });
//! ```
//!
//! # When ranks die
//!
//! In a job that was started with `ferry run --on-death continue`, a call that needs a dead rank fails with
//! [`Error::RankLost`]. The survivors [`revoke`](Comm::revoke) the communicator, [`shrink`](Comm::shrink) it and
//! continue.
//!
//! # Modules
//!
//! A [`Module`] is a small WebAssembly program that handles messages on the NIC where they arrive, while the
//! application computes. [`load_module`](Comm::load_module) loads it. A function of the program itself can do so, too:
//! [`handle`](Comm::handle) registers it.

mod active;
mod cartesian;
mod collective;
mod comm;
mod command;
mod counters;
mod error;
mod fault;
mod file;
mod file_options;
mod file_view;
mod inter_comm;
mod job;
mod local;
mod module;
mod operator;
mod persistent;
mod plain;
mod port;
mod request;
mod scope;
#[cfg(feature = "serde")]
mod value;
mod varying;
mod watch;
mod window;
mod world;

pub use active::{ActiveMessage, Handled};
pub use cartesian::{Cartesian, Shift, dims_create};
pub use collective::{Collecting, CollectiveRequest};
pub use comm::{Comm, Probed, Status};
pub use command::Command;
pub use counters::{Counters, Trigger};
pub use error::{Call, Error, Loss};
pub use fault::Agreed;
pub use ferrywire_derive::Plain;
pub use ferrywire_host::ErrorCode;
pub use ferrywire_host::nic::Trap;
pub use ferrywire_modules::ModuleFault;
pub use ferrywire_mpi::operation::Operation;
pub use ferrywire_runtime::{ANY, Any, Rank, Source, TAG_MAX, Tag, With};
pub use file::{Accessing, File, FileRequest};
pub use file_options::FileOptions;
pub use file_view::FileView;
pub use inter_comm::InterComm;
pub use local::local;
pub use module::{Module, ModuleStats};
pub use operator::CombineOrder;
pub use persistent::{PersistentReceive, PersistentSend};
pub use plain::{Buffer, Number, Numbers, Plain};
pub use port::Port;
pub use request::{
    Kept, OwnedBuffer, PutRequest, ReceiveRequest, Receiving, Request, SendRequest, Sending,
};
pub use scope::{Scope, Scoped, ScopedResult};
pub use window::{FenceEpoch, LockKind, Locked, LockedAll, Part, Window};
pub use world::{World, init};
