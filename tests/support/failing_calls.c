/* System calls of the core that fail when a test says so; loaded by LD_PRELOAD.

   1. Only calls from the core's library are counted and fail, so Python's own imports are safe.
   2. The control words are shared by the parent and its readers; failing_calls.py names them.
   3. Nothing is looked up when a call is made, since a child of vfork may make it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PARENT, CALL, ROLE, FIRST, LAST, ERROR, FAILED, COUNTS = 8 };

static int32_t *control;
static volatile uintptr_t core_begin, core_end;

#define REALS(X) X(read) X(pread64) X(preadv2) X(pwrite64) X(open64) X(memfd_create) X(fallocate) X(mmap64) \
    X(recvmsg) X(pthread_create) X(fstat64) X(syscall)
#define DECLARED(name) static __typeof__(name) *real_##name;
REALS(DECLARED)

__attribute__((constructor)) static void begin(void) {
#define RESOLVED(name) real_##name = dlsym(RTLD_NEXT, #name);
    REALS(RESOLVED)
    const char *path = getenv("FAILING_CALLS");
    int file = path ? real_open64(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = real_mmap64(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) control = at;
}

static int is_core(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "/_multitables/_core.")) return 0;
    uintptr_t end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t last = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && last > end) end = last;
    }
    core_begin = info->dlpi_addr;
    core_end = end;
    return 1;
}

static int fails(int call, void *from) {
    if (!control) return 0;
    if (!core_end) dl_iterate_phdr(is_core, NULL);
    if ((uintptr_t)from < core_begin || (uintptr_t)from >= core_end) return 0;
    int role = getpid() != control[PARENT];
    int32_t *count = &control[COUNTS + 2 * call + role];
    int32_t n = __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    if (control[CALL] != call || control[ROLE] != role) return 0;
    if (n < control[FIRST] || n > control[LAST]) return 0;
    __atomic_add_fetch(&control[FAILED], 1, __ATOMIC_RELAXED);
    return 1;
}

/* A file with a name: not a pipe, a socket or a memfd. */
static int is_file(int fd) {
    struct stat64 found; // glibc before 2.33 has no fstat64 to be resolved
    return real_syscall(SYS_fstat, fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink > 0;
}

#define FROM __builtin_return_address(0)
#define REFUSE(call, failure) \
    if (fails(call, FROM)) { \
        errno = control[ERROR]; \
        return failure; \
    }
/* With an error of 0 a read or write is short. */
#define SHORT(call, fd, length) \
    if (control && is_file(fd) && fails(call, FROM)) { \
        if ((errno = control[ERROR])) return -1; \
        if (length > 1) length /= 2; \
    }

ssize_t read(int fd, void *into, size_t length) {
    SHORT(CALL_read, fd, length)
    return real_read(fd, into, length);
}

ssize_t pread64(int fd, void *into, size_t length, off64_t at) {
    SHORT(CALL_pread, fd, length)
    return real_pread64(fd, into, length, at);
}

ssize_t pread(int fd, void *into, size_t length, off_t at) {
    SHORT(CALL_pread, fd, length)
    return real_pread64(fd, into, length, at);
}

ssize_t preadv2(int fd, const struct iovec *into, int count, off_t at, int flags) {
    SHORT(CALL_pread, fd, count)
    return real_preadv2(fd, into, count, at, flags);
}

ssize_t preadv(int fd, const struct iovec *into, int count, off_t at) {
    SHORT(CALL_pread, fd, count)
    return real_preadv2(fd, into, count, at, 0);
}

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t at) {
    SHORT(CALL_pwrite, fd, length)
    return real_pwrite64(fd, from, length, at);
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t at) {
    SHORT(CALL_pwrite, fd, length)
    return real_pwrite64(fd, from, length, at);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (strncmp(path, "/proc/", 6) && strncmp(path, "/sys/", 5)) REFUSE(CALL_open, -1)
    return real_open64(path, flags, mode);
}

int memfd_create(const char *name, unsigned flags) {
    REFUSE(CALL_memfd_create, -1)
    return real_memfd_create(name, flags);
}

int fallocate(int fd, int mode, off_t at, off_t length) {
    REFUSE(CALL_fallocate, -1)
    return real_fallocate(fd, mode, at, length);
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off64_t offset) {
    REFUSE(CALL_mmap, MAP_FAILED)
    return real_mmap64(at, length, protection, flags, fd, offset);
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    REFUSE(CALL_mmap, MAP_FAILED)
    return real_mmap64(at, length, protection, flags, fd, offset);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    REFUSE(CALL_recvmsg, -1)
    return real_recvmsg(fd, message, flags);
}

int pthread_create(pthread_t *made, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    if (fails(CALL_pthread_create, FROM)) return control[ERROR];
    return real_pthread_create(made, how, run, with);
}

int fstat64(int fd, struct stat64 *into) {
    if (control && is_file(fd)) REFUSE(CALL_fstat, -1)
    return real_fstat64(fd, into);
}

int fstat(int fd, struct stat *into) {
    if (control && is_file(fd)) REFUSE(CALL_fstat, -1)
    return real_fstat64(fd, (struct stat64 *)into);
}

long syscall(long number, ...) {
    long with[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) with[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_io_uring_setup) REFUSE(CALL_io_uring_setup, -1)
    int command = number == SYS_futex ? with[1] & FUTEX_CMD_MASK : -1;
    if (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) REFUSE(CALL_futex, -1)
    return real_syscall(number, with[0], with[1], with[2], with[3], with[4], with[5]);
}
