;; Echo, like echo.c, written by hand: a request has an even tag; its answer has the same payload and the tag plus one.
;; The answer goes to the module of the rank that asked, which delivers it.
(module
  (import "ferry" "sender" (func $sender (result i32)))
  (import "ferry" "tag" (func $tag (result i32)))
  (import "ferry" "length" (func $length (result i32)))
  (import "ferry" "read" (func $read (param $into i32) (param $offset i32) (param $bytes i32)))
  (import "ferry" "send"
    (func $send (param $to i32) (param $tag i32) (param $from i32) (param $bytes i32)))

  ;; One page is 64 KiB: room for the longest message that a module takes.
  (memory (export "memory") 1)

  (func (export "on_message") (result i32)
    ;; An odd tag: an answer. Deliver.
    (if (i32.and (call $tag) (i32.const 1))
      (then (return (i32.const 0))))
    (call $read (i32.const 0) (i32.const 0) (call $length))
    (call $send
      (call $sender)
      (i32.add (call $tag) (i32.const 1))
      (i32.const 0)
      (call $length))
    ;; Consume.
    (i32.const 1)))
