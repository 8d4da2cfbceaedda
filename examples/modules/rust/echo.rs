//! Echo, like `echo.c`: answers requests where they arrive. A request has an even tag; its answer has the same
//! payload and the tag plus one. The answer goes to the module of the rank that asked, which delivers it.
//!
//!     RUSTFLAGS="-C link-arg=-zstack-size=8192 -C strip=symbols" \
//!         cargo build --release --target wasm32-unknown-unknown -p ferrywire-module --example echo
#![cfg_attr(target_arch = "wasm32", no_std)]

use ferrywire_module::{MESSAGE_BYTES_MAX, Module, Verdict, length, read, send, sender, tag};

struct Echo {
    payload: [u8; MESSAGE_BYTES_MAX],
}

impl Module for Echo {
    fn on_message(&mut self) -> Verdict {
        let is_answer = tag() % 2 == 1;
        if is_answer {
            return Verdict::Deliver;
        }
        let payload = &mut self.payload[..length()];
        read(0, payload);
        send(sender(), tag() + 1, payload);
        Verdict::Consume
    }
}

ferrywire_module::module!(Echo = Echo { payload: [0; MESSAGE_BYTES_MAX] });
