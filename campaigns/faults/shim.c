/* Stands between a program and the C library, and plays a disk that fails or is slow, and a wall clock that was set.

   Preloaded (LD_PRELOAD); what it plays stands in a shared file named by SLACKTIDE_FAULTS, so that it can be changed
   while the program runs. What the program starts does not get it: its variable is removed. Clocks that nobody can
   set (CLOCK_MONOTONIC, CLOCK_BOOTTIME) stay true. Files that were written after the clock was set show the new time,
   as they would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
    double clock_s;  /* added to the wall clock */
    double since_s;  /* ... and to the times of files from this moment of the true clock on */
    int error;       /* writes fail with this; 0: they do not */
    int slow_ms;     /* writes take this much longer */
    char where[496]; /* of files whose path begins so */
};

static struct faults none;
static volatile struct faults *playing = &none;

#define REAL(name, type, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

static int (*true_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SLACKTIDE_FAULTS");
    int handle = path ? open(path, O_RDONLY) : -1;
    true_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (handle >= 0) {
        void *found = mmap(NULL, sizeof(struct faults), PROT_READ, MAP_SHARED, handle, 0);
        if (found != MAP_FAILED) playing = found;
        close(handle);
    }
    unsetenv("LD_PRELOAD");
}

static int meant(const char *path) {
    return (playing->error || playing->slow_ms) && path &&
           strncmp(path, (const char *)playing->where, strlen((const char *)playing->where)) == 0;
}

/* Say whether something done to a path is to fail, after it took its time. */
static int fails(const char *path) {
    if (!meant(path)) return 0;
    if (playing->slow_ms) usleep(1000 * playing->slow_ms);
    errno = playing->error;
    return playing->error != 0;
}

static int fails_open(int handle) {
    char name[64], path[4096];
    ssize_t length;
    if (!playing->error && !playing->slow_ms) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
    length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(path);
}

ssize_t write(int handle, const void *data, size_t size) {
    REAL("write", ssize_t, int, const void *, size_t)
    return fails_open(handle) ? -1 : real(handle, data, size);
}

ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL("writev", ssize_t, int, const struct iovec *, int)
    return fails_open(handle) ? -1 : real(handle, parts, count);
}

ssize_t pwrite64(int handle, const void *data, size_t size, off64_t at) {
    REAL("pwrite64", ssize_t, int, const void *, size_t, off64_t)
    return fails_open(handle) ? -1 : real(handle, data, size, at);
}

ssize_t pwrite(int handle, const void *data, size_t size, off_t at) { return pwrite64(handle, data, size, at); }

int ftruncate64(int handle, off64_t size) {
    REAL("ftruncate64", int, int, off64_t)
    return fails_open(handle) ? -1 : real(handle, size);
}

/* A full disk does not fail here: what is to be flushed has its place already. */
int fsync(int handle) {
    REAL("fsync", int, int)
    return fails_open(handle) && errno != ENOSPC ? -1 : real(handle);
}

int fdatasync(int handle) {
    REAL("fdatasync", int, int)
    return fails_open(handle) && errno != ENOSPC ? -1 : real(handle);
}

int mkdir(const char *path, mode_t mode) {
    REAL("mkdir", int, const char *, mode_t)
    return fails(path) ? -1 : real(path, mode);
}

int open64(const char *path, int flags, ...) {
    REAL("open64", int, const char *, int, mode_t)
    va_list rest;
    mode_t mode;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    return (flags & O_CREAT) && access(path, F_OK) != 0 && fails(path) ? -1 : real(path, flags, mode);
}

static void set_clock(clockid_t clock, struct timespec *now) {
    double moved = playing->clock_s;
    if (moved == 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return;
    now->tv_sec += (time_t)moved;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int code;
    if (!true_clock) true_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    code = true_clock(clock, now);
    if (code == 0) set_clock(clock, now);
    return code;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    int code = clock_gettime(CLOCK_REALTIME, &precise);
    (void)zone;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return code;
}

time_t time(time_t *kept) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (kept) *kept = precise.tv_sec;
    return precise.tv_sec;
}

static void move(struct timespec *at) {
    if (at->tv_sec + 1e-9 * at->tv_nsec >= playing->since_s) at->tv_sec += (time_t)playing->clock_s;
}

static int dated(int code, struct stat64 *found) {
    if (code == 0 && playing->clock_s != 0) {
        move(&found->st_mtim);
        move(&found->st_ctim);
    }
    return code;
}

int stat64(const char *path, struct stat64 *found) {
    REAL("stat64", int, const char *, struct stat64 *)
    return dated(real(path, found), found);
}

int lstat64(const char *path, struct stat64 *found) {
    REAL("lstat64", int, const char *, struct stat64 *)
    return dated(real(path, found), found);
}

int fstat64(int handle, struct stat64 *found) {
    REAL("fstat64", int, int, struct stat64 *)
    return dated(real(handle, found), found);
}

int fstatat64(int folder, const char *path, struct stat64 *found, int flags) {
    REAL("fstatat64", int, int, const char *, struct stat64 *, int)
    return dated(real(folder, path, found, flags), found);
}
