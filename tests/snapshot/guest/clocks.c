// Runs in the guest: looks at its clocks and at /run/space/generation a thousand times a second and draws
// from getrandom.
//
//   clocks run STATUS   until it is ended
//   clocks show STATUS  {"looks","back","generation","stamp_us","draws":["hex"...]}
//
// `back`: how often CLOCK_MONOTONIC or CLOCK_BOOTTIME was less than before. `stamp_us`: CLOCK_REALTIME at the
// first look after the last change of the generation. `draws`: 16 bytes from getrandom right after each
// change.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { draws_max = 64 };

struct status {
  volatile uint64_t looks, back, stamp_us, draws;
  char generation[32];
  unsigned char drawn[draws_max][16];
};

static uint64_t now_us(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (uint64_t)at.tv_sec * 1000000 + (uint64_t)at.tv_nsec / 1000;
}

static void read_generation(char* out, size_t size) {
  memset(out, 0, size);
  const int fd = open("/run/space/generation", O_RDONLY);
  if (fd < 0) return;
  const ssize_t count = read(fd, out, size - 1);
  if (count > 0) out[strcspn(out, "\n")] = 0;
  close(fd);
}

static void look(struct status* status, uint64_t* monotonic, uint64_t* boottime) {
  const uint64_t mono = now_us(CLOCK_MONOTONIC), boot = now_us(CLOCK_BOOTTIME);
  if (mono < *monotonic || boot < *boottime) ++status->back;
  *monotonic = mono;
  *boottime = boot;
  char generation[sizeof status->generation];
  read_generation(generation, sizeof generation);
  if (strcmp(generation, status->generation) != 0) {
    status->stamp_us = now_us(CLOCK_REALTIME);
    if (status->draws < draws_max && getrandom(status->drawn[status->draws], 16, 0) == 16) ++status->draws;
    memcpy(status->generation, generation, sizeof generation);
  }
  ++status->looks;
}

static void show(const struct status* status) {
  printf("{\"looks\":%llu,\"back\":%llu,\"generation\":\"%s\",\"stamp_us\":%llu,\"draws\":[",
         (unsigned long long)status->looks, (unsigned long long)status->back, status->generation,
         (unsigned long long)status->stamp_us);
  for (uint64_t i = 0; i < status->draws; ++i) {
    printf("%s\"", i ? "," : "");
    for (int k = 0; k < 16; ++k) printf("%02x", status->drawn[i][k]);
    printf("\"");
  }
  printf("]}\n");
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int running = strcmp(argv[1], "run") == 0;
  const int fd = open(argv[2], O_RDWR | (running ? O_CREAT : 0), 0600);
  if (fd < 0 || (running && ftruncate(fd, sizeof(struct status)) != 0)) return 1;
  struct status* status = mmap(NULL, sizeof *status, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (status == MAP_FAILED) return 1;
  if (!running) return show(status), 0;
  uint64_t monotonic = 0, boottime = 0;
  for (;;) {
    look(status, &monotonic, &boottime);
    usleep(1000);
  }
}
