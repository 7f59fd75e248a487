//! The server: one loop in one thread for each volume. The first one takes clients in.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, Builder, ScopedJoinHandle};
use std::time::Duration;

use oxblock::volume::Remote;
use oxblock::{Error, Result, Volume};
use oxblock_nbd_proto::Export;
use oxblock_net::{Address, Inherited, Listener};

use crate::connection::Seat;
use crate::door::Door;
use crate::engine::{Engine, Look};
use crate::event_loop::Loop;
use crate::tls::Tls;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen.
    pub listen: Vec<Address>,
    /// Clients at a time; one more is turned away.
    pub connections: usize,
    /// What clients may begin, if anything.
    pub tls: Option<Tls>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { listen: Vec::new(), connections: 4096, tls: None }
    }
}

/// A volume, and as what clients see it.
#[derive(Debug)]
pub struct Offered {
    /// The volume.
    pub volume: Volume,
    /// The name of the export; no two have the same.
    pub name: String,
    /// What clients are told about it.
    pub description: String,
    /// Refuse every change.
    pub read_only: bool,
}

/// How others look at what a server serves, from any thread.
#[derive(Debug, Clone)]
pub struct Monitor(Vec<Remote<Loop>>);

impl Monitor {
    /// The volumes in order; nothing for one whose thread does not answer `within` that time, or is not there any more.
    pub fn look(&self, within: Duration) -> Vec<Option<Look>> {
        self.0.iter().map(|one| one.ask(within, |one| one.look())).collect()
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    loops: Vec<Loop>,
    addresses: Vec<Address>,
}

impl Server {
    /// Listens for clients of the volumes, on the `inherited` sockets too. Clients that name no export get the first one. `stop`
    /// ends [`run`](Self::run) when it polls readable.
    ///
    /// # Errors
    /// What keeps it from listening, with the address; nothing to serve.
    pub fn new(
        offered: Vec<Offered>,
        options: &ServerOptions,
        inherited: Vec<Inherited>,
        stop: OwnedFd,
    ) -> Result<Self> {
        let exports: Arc<[Export]> = offered.iter().map(export).collect();
        let engines = offered
            .into_iter()
            .enumerate()
            .map(|(place, one)| Engine::new(one.volume, Arc::clone(&exports), place));
        let mut loops = engines.map(Loop::new).collect::<Result<Vec<_>>>()?;
        let (listeners, addresses) = listen(options, inherited)?;
        let door = Door {
            listeners,
            loops: loops.iter().map(Loop::remote).collect(),
            tls: options.tls.clone(),
            stop,
            most: options.connections,
            seat: Seat::default(),
            shut: None,
        };
        let failed = |error| Error::io("set up the event loop", error);
        let nothing = || failed(io::Error::new(io::ErrorKind::InvalidInput, "no volume to serve"));
        loops.first_mut().ok_or_else(nothing)?.open_door(door).map_err(failed)?;
        Ok(Self { loops, addresses })
    }

    /// Where it was asked to listen, with the ports that were found where any was asked for.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How others look at what it serves.
    pub fn monitor(&self) -> Monitor {
        Monitor(self.loops.iter().map(Loop::remote).collect())
    }

    /// Serves until it is told to stop; then everything that was begun is finished and answered. Gives back the volumes in
    /// order, for their owner to close. What a volume has to say meanwhile is `tell`'s to pass on, with the volume's place.
    ///
    /// # Errors
    /// No thread is to be had for one of the volumes. Nothing was served then.
    pub fn run(self, tell: &(dyn Fn(usize, &str) + Sync)) -> Result<Vec<Volume>> {
        let remotes: Vec<Remote<Loop>> = self.loops.iter().map(Loop::remote).collect();
        // However a loop ends, it does not end alone.
        let run = |place: usize, one: Loop| {
            let _all = StopAll(&remotes);
            one.run(&|text| tell(place, text))
        };
        let run = &run;
        thread::scope(|scope| {
            let mut loops = self.loops.into_iter().enumerate();
            let first = loops.next();
            let mut others: Vec<ScopedJoinHandle<'_, Volume>> = Vec::new();
            let spawned = loops.try_for_each(|(place, one)| {
                let builder = Builder::new().name(format!("export {place}"));
                others.push(builder.spawn_scoped(scope, move || run(place, one))?);
                Ok(())
            });
            if let Err(error) = spawned {
                drop(StopAll(&remotes));
                return Err(Error::io("start a thread for a volume", error));
            }
            let mut volumes: Vec<Volume> =
                first.into_iter().map(|(place, one)| run(place, one)).collect();
            for other in others {
                match other.join() {
                    Ok(volume) => volumes.push(volume),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(volumes)
        })
    }
}

/// Has all loops stop when it is dropped.
struct StopAll<'a>(&'a [Remote<Loop>]);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        for one in self.0 {
            one.send(Loop::begin_to_stop);
        }
    }
}

fn export(offered: &Offered) -> Export {
    let devices = offered.volume.info().devices;
    Export {
        name: offered.name.clone(),
        description: offered.description.clone(),
        size: offered.volume.size(),
        read_only: offered.read_only,
        rotational: devices.iter().any(|device| device.limits.rotational),
    }
}

/// The sockets of a server, and the addresses of those that it was asked for.
fn listen(
    options: &ServerOptions,
    inherited: Vec<Inherited>,
) -> Result<(Vec<Listener>, Vec<Address>)> {
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for socket in inherited {
        let failed = |error| Error::io("listen on a socket that was passed on", error);
        socket.address().map_err(failed)?;
        listeners.push(Listener::take_over(socket).map_err(failed)?);
    }
    for asked in &options.listen {
        let failed = |error| Error::io(format!("listen on {asked}"), error);
        let listener = Listener::bind(asked).map_err(failed)?;
        addresses.push(listener.address(asked));
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}
