// Runs in the guest: SIZE MiB of memory with a pattern. One command a line on standard input, one line of
// answer:
//
//   dirty N    N random pages get new random contents
//   zero N     N random pages become zeros
//   sum        the checksum of all of it
//   quit
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { page = 4096 };

static uint64_t random_state = 88172645463325252ull;

static uint64_t next(void) {  // xorshift64: repeatable, and cheap enough under emulation
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

static uint64_t sum(const uint64_t* words, size_t count) {
  uint64_t hash = 14695981039346656037ull;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ words[i]) * 1099511628211ull + (hash >> 31);
  return hash;
}

static void fill(uint64_t* words, size_t pages, long how_many, int zero) {
  for (long i = 0; i < how_many; ++i) {
    uint64_t* at = words + (next() % pages) * (page / sizeof *words);
    for (size_t k = 0; k < page / sizeof *at; ++k) at[k] = zero ? 0 : next();
  }
}

int main(int argc, char** argv) {
  const size_t bytes = (size_t)atol(argc > 1 ? argv[1] : "64") << 20;
  uint64_t* words =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (words == MAP_FAILED) return 1;
  for (size_t i = 0; i < bytes / sizeof *words; i += 8) words[i] = next();
  puts("ready");
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strncmp(line, "dirty ", 6) == 0) fill(words, bytes / page, atol(line + 6), 0), puts("done");
    if (strncmp(line, "zero ", 5) == 0) fill(words, bytes / page, atol(line + 5), 1), puts("done");
    if (strncmp(line, "sum", 3) == 0)
      printf("%016llx\n", (unsigned long long)sum(words, bytes / sizeof *words));
    if (strncmp(line, "quit", 4) == 0) return 0;
    fflush(stdout);
  }
  return 0;
}
