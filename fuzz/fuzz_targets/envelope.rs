//! Any bytes as a frame: none may cause a panic, and an envelope that the parser accepts is emitted as the same bytes.
#![no_main]

use ferrywire_nic::Envelope;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((envelope, payload)) = Envelope::parse(bytes) else {
        return;
    };
    let mut head = [0; Envelope::BYTES_MAX];
    let len = envelope.emit(&mut head);
    let again = [&head[..len], payload].concat();
    assert_eq!(again, bytes, "what was accepted does not come out as it went in");
});
