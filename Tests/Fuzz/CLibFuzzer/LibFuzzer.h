// The interface of libFuzzer for a program that has a `main` of its own. Linked only with `-sanitize=fuzzer`; see scripts/fuzz.
// Source: https://llvm.org/docs/LibFuzzer.html, "Using libFuzzer as a library".
#ifndef BROKER_CLIBFUZZER_H
#define BROKER_CLIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*run)(const uint8_t *bytes, size_t size));

/// Ours: what libFuzzer's own `main` asks for, which is not used, but linked.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
