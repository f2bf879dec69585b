"""The system calls that code in a container may make, with their numbers on each architecture.

Python, numpy, pandas, matplotlib, sqlite, threads and subprocesses need these. What is not here
does not exist for a container: no sockets, mounts, namespaces, keys, tracing, BPF or io_uring.
"""

from typing import Final

# Each is `name:number on x86-64:number on arm64`; `-` where an architecture lacks it.
# Memory, threads and time.
_MEMORY: Final = """
mmap:9:222 mprotect:10:226 munmap:11:215 brk:12:214 mremap:25:216 msync:26:227 mincore:27:232
madvise:28:233 membarrier:324:283 rseq:334:293 futex:202:98 set_tid_address:218:96
set_robust_list:273:99 get_robust_list:274:100 sched_yield:24:124 sched_getparam:143:121
sched_getscheduler:145:120 sched_get_priority_max:146:125 sched_get_priority_min:147:126
sched_rr_get_interval:148:127 sched_setaffinity:203:122 sched_getaffinity:204:123
getcpu:309:168 getpriority:140:141 setpriority:141:140 nanosleep:35:101
clock_nanosleep:230:115 clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169
time:201:- times:100:153 getitimer:36:102 setitimer:38:103 alarm:37:- pause:34:-
timer_create:222:107 timer_settime:223:110 timer_gettime:224:108 timer_getoverrun:225:109
timer_delete:226:111 timerfd_create:283:85 timerfd_settime:286:86 timerfd_gettime:287:87
"""
# Files, inside the folders that the container has.
_FILES: Final = """
read:0:63 write:1:64 open:2:- close:3:57 stat:4:- fstat:5:80 lstat:6:- lseek:8:62
pread64:17:67 pwrite64:18:68 readv:19:65 writev:20:66 access:21:- dup:32:23 dup2:33:-
dup3:292:24 sendfile:40:71 fcntl:72:25 fsync:74:82 fdatasync:75:83 truncate:76:45
ftruncate:77:46 getdents:78:- getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50
rename:82:- mkdir:83:- rmdir:84:- creat:85:- link:86:- unlink:87:- symlink:88:- readlink:89:-
chmod:90:- fchmod:91:52 umask:95:166 utime:132:- statfs:137:43 fstatfs:138:44
readahead:187:213 getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10 listxattr:194:11
llistxattr:195:12 flistxattr:196:13 fadvise64:221:223 utimes:235:- openat:257:56
mkdirat:258:34 futimesat:261:- newfstatat:262:79 unlinkat:263:35 renameat:264:38 linkat:265:37
symlinkat:266:36 readlinkat:267:78 fchmodat:268:53 faccessat:269:48 sync_file_range:277:84
utimensat:280:88 fallocate:285:47 preadv:295:69 pwritev:296:70 renameat2:316:276
copy_file_range:326:285 preadv2:327:286 pwritev2:328:287 statx:332:291 close_range:436:436
openat2:437:437 faccessat2:439:439
"""
# Pipes, pairs of sockets and waiting. Without sendmsg no process passes a descriptor, and without
# setsockopt none attaches a BPF program: hostile code has less of the host's kernel to try.
_PIPES: Final = """
poll:7:- select:23:- pselect6:270:72 ppoll:271:73 pipe:22:- pipe2:293:59 epoll_create:213:-
epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22 epoll_pwait2:441:441
eventfd:284:- eventfd2:290:19 signalfd:282:- signalfd4:289:74 sendto:44:206 recvfrom:45:207
shutdown:48:210 getsockname:51:204 getpeername:52:205 getsockopt:55:209
"""
# Processes and signals of its own.
_PROCESSES: Final = """
arch_prctl:158:- rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 getpid:39:172
fork:57:- vfork:58:- execve:59:221 exit:60:93 wait4:61:260 kill:62:129 uname:63:160
getrlimit:97:163 getrusage:98:165 sysinfo:99:179 getuid:102:174 getgid:104:176 geteuid:107:175
getegid:108:177 setpgid:109:154 getppid:110:173 getpgrp:111:- setsid:112:157 getgroups:115:158
getresuid:118:148 getresgid:120:150 getpgid:121:155 getsid:124:156 capget:125:90
rt_sigpending:127:136 rt_sigtimedwait:128:137 rt_sigsuspend:130:133 sigaltstack:131:132
gettid:186:178 tkill:200:130 restart_syscall:219:128 exit_group:231:94
tgkill:234:131 waitid:247:95 getrandom:318:278
"""
_GROUPS: Final = (_MEMORY, _FILES, _PIPES, _PROCESSES)
# Allowed with certain arguments only.
CLONE: Final = {"x86_64": 56, "aarch64": 220}
IOCTL: Final = {"x86_64": 16, "aarch64": 29}
PRCTL: Final = {"x86_64": 157, "aarch64": 167}
PRLIMIT: Final = {"x86_64": 302, "aarch64": 261}
SOCKETPAIR: Final = {"x86_64": 53, "aarch64": 199}


def allowed_numbers(machine: str) -> list[int]:
    """Return the numbers of the calls that are allowed whatever their arguments, in order."""
    place = list(CLONE).index(machine) + 1
    calls = (call.split(":") for group in _GROUPS for call in group.split())
    return sorted(int(call[place]) for call in calls if call[place] != "-")
