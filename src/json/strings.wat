;; Finds the end of JSON string content, sixteen bytes at a time. `make generate` makes
;; strings.generated.ts of it, which strings.ts loads.
;;
;; The content begins at address 512, so that the offsets of the loads below need two bytes
;; each, and ends with a zero byte, which ends every pass.
;;
;; pass(at) starts at content offset `at` and returns the offset of the first byte that needs a
;; closer look: a quote, a control character, or a backslash that begins no whole escape.
;;
;; A bit mask has one bit for each of sixteen bytes, the first byte lowest. How runs of
;; backslashes are told apart is from simdjson (Langdale and Lemire, "Parsing Gigabytes of
;; JSON per Second", section 3.1.1). There is no branch on "contains a backslash": in text
;; with one in every line the processor mispredicts it so often that the whole takes half as
;; long again.
(module
  (memory (export "memory") 2) ;; 128 KiB

  ;; zero if each of the four bytes is a hexadecimal digit. A byte below 0x80 plus 0x80 - x has
  ;; its highest bit set if it is x or more.
  (func $not-hex (param $v i32) (result i32)
    (local $lower i32)
    (local.set $lower (i32.or (local.get $v) (i32.const 0x20202020)))
    (i32.and
      (i32.xor
        (i32.or
          (i32.and ;; 0 to 9
            (i32.add (local.get $v) (i32.const 0x50505050))
            (i32.xor (i32.add (local.get $v) (i32.const 0x46464646)) (i32.const -1)))
          (i32.and ;; a to f
            (i32.add (local.get $lower) (i32.const 0x1f1f1f1f))
            (i32.xor (i32.add (local.get $lower) (i32.const 0x19191919)) (i32.const -1))))
        (i32.const -1))
      (i32.const 0x80808080))
    (i32.and (local.get $v) (i32.const 0x80808080))
    i32.or)

  (func (export "pass") (param $at i32) (result i32)
    (local $slashes i32)  ;; mask: backslashes
    (local $odd i32)      ;; mask: every second backslash of a run, and the byte behind a run of odd length
    (local $escapes i32)  ;; mask: backslashes that begin an escape
    (local $stops i32)    ;; mask: bytes to stop at
    (local $carry i32)    ;; 1: the last byte of the step before escapes the first byte of this one
    (local $left i32)     ;; steps until the faster loop is tried again
    (local $v v128) (local $behind v128)
    (local $last-control v128) (local $quote v128) (local $backslash v128) (local $low-half v128)
    (local $zero v128) (local $escape-low v128) (local $escape-high v128)

    ;; Constants in locals: V8 would load each of them anew in every step.
    (local.set $last-control (v128.const i8x16 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31))
    (local.set $quote (v128.const i8x16 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34))
    (local.set $backslash (v128.const i8x16 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92))
    (local.set $low-half (v128.const i8x16 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15))
    ;; For each of " \ / b f n r t, bit (byte >> 4) is set at the byte's low half in the first
    ;; table and at its high half in the second. Two halves with a bit in common are such a byte.
    (local.set $escape-low
      (v128.const i8x16 0 0 0xc4 0 0x80 0 0x40 0 0 0 0 0 0x20 0 0x40 0x04))
    (local.set $escape-high
      (v128.const i8x16 0 0 0x04 0 0 0x20 0x40 0x80 0 0 0 0 0 0 0 0))

    (loop $next
      ;; 64 bytes at once, as long as none of them is a control character, '"' or '\'
      (local.set $v (v128.load offset=512 align=1 (local.get $at)))
      (v128.or (v128.or (i8x16.le_u (local.get $v) (local.get $last-control))
                        (i8x16.eq (local.get $v) (local.get $quote)))
               (i8x16.eq (local.get $v) (local.get $backslash)))
      (local.set $v (v128.load offset=528 align=1 (local.get $at)))
      (v128.or (v128.or (i8x16.le_u (local.get $v) (local.get $last-control))
                        (i8x16.eq (local.get $v) (local.get $quote)))
               (i8x16.eq (local.get $v) (local.get $backslash)))
      v128.or
      (local.set $v (v128.load offset=544 align=1 (local.get $at)))
      (v128.or (v128.or (i8x16.le_u (local.get $v) (local.get $last-control))
                        (i8x16.eq (local.get $v) (local.get $quote)))
               (i8x16.eq (local.get $v) (local.get $backslash)))
      v128.or
      (local.set $v (v128.load offset=560 align=1 (local.get $at)))
      (v128.or (v128.or (i8x16.le_u (local.get $v) (local.get $last-control))
                        (i8x16.eq (local.get $v) (local.get $quote)))
               (i8x16.eq (local.get $v) (local.get $backslash)))
      v128.or
      v128.any_true
      (i32.eqz (i32.or (local.get $carry)))
      (if (then
        (local.set $at (i32.add (local.get $at) (i32.const 64)))
        (br $next)))

      (local.set $left (i32.const 16))
      (loop $step
        (local.set $v (v128.load offset=512 align=1 (local.get $at)))
        (local.set $slashes (i8x16.bitmask (i8x16.eq (local.get $v) (local.get $backslash))))

        ;; odd = slashes without one that is itself escaped
        ;; odd = ((odd << 1 | 0xaaaa) - odd) ^ 0xaaaa     (0x2aaaa: one bit for the byte behind)
        (local.set $odd
          (i32.and (local.get $slashes) (i32.xor (local.get $carry) (i32.const -1))))
        (local.set $odd
          (i32.xor
            (i32.sub
              (i32.or (i32.shl (local.get $odd) (i32.const 1)) (i32.const 0x2aaaa))
              (local.get $odd))
            (i32.const 0x2aaaa)))
        (local.set $escapes (i32.and (local.get $odd) (local.get $slashes)))

        ;; stops = escapes whose second byte is none of " \ / b f n r t
        (local.set $behind (v128.load offset=513 align=1 (local.get $at)))
        (i32.and
          (local.get $escapes)
          (i8x16.bitmask
            (i8x16.eq
              (v128.and
                (i8x16.swizzle (local.get $escape-low) (v128.and (local.get $behind) (local.get $low-half)))
                (i8x16.swizzle (local.get $escape-high) (i8x16.shr_u (local.get $behind) (i32.const 4))))
              (local.get $zero))))
        ;;       | control characters and quotes that are not escaped
        (i32.and
          (i8x16.bitmask
            (v128.or (i8x16.le_u (local.get $v) (local.get $last-control))
                     (i8x16.eq (local.get $v) (local.get $quote))))
          (i32.xor
            (i32.xor (local.get $odd) (i32.or (local.get $slashes) (local.get $carry)))
            (i32.const -1)))
        i32.or
        (local.tee $stops)

        (if (then
          (local.set $at (i32.add (local.get $at) (i32.ctz (local.get $stops))))
          ;; a stop at anything but \u and four hexadecimal digits is returned
          (if (i32.or
                (i32.ne (i32.load16_u offset=512 align=1 (local.get $at)) (i32.const 0x755c))
                (call $not-hex (i32.load offset=514 align=1 (local.get $at))))
            (then (return (local.get $at))))
          ;; such an escape is passed, and all that follow it at once
          (loop $unicode
            (local.set $at (i32.add (local.get $at) (i32.const 6)))
            (br_if $unicode
              (i32.eqz
                (i32.or
                  (i32.ne (i32.load16_u offset=512 align=1 (local.get $at)) (i32.const 0x755c))
                  (call $not-hex (i32.load offset=514 align=1 (local.get $at)))))))
          (local.set $carry (i32.const 0))
          (br $step)))

        (local.set $carry (i32.shr_u (local.get $escapes) (i32.const 15)))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $step (local.get $left))
        (br $next)))
    unreachable))
