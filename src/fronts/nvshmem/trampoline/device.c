/* libnvshmem_device.a: nothing. All device code is in the headers; programs' build lines name the
 * library. */
__attribute__((visibility("hidden"))) extern const char penstock_nvshmem_device_is_in_headers;
const char penstock_nvshmem_device_is_in_headers = 1;
