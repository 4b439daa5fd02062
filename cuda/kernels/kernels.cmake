# The kernel files, and the host files that are compiled once for each backend. Paths are relative to cuda/.
set(MTPCHECK_KERNELS)
set(MTPCHECK_KERNEL_HOSTS)
