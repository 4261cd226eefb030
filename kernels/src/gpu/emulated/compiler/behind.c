
int kiln_launch(void **args, const unsigned int *grid, const unsigned int *block)
{
    int status = 0;
    kiln_args = args;
    kiln_blocks.x = grid[0], kiln_blocks.y = grid[1], kiln_blocks.z = grid[2];
    kiln_threads.x = block[0], kiln_threads.y = block[1], kiln_threads.z = block[2];
    unsigned int threads = block[0] * block[1] * block[2];
#ifdef KILN_FIBERS
    if (threads % KILN_WARP != 0) return 3;
    kiln_fibers = malloc(threads * sizeof(KilnFiber));
    kiln_stacks = malloc((size_t)threads * KILN_STACK);
    if (!kiln_fibers || !kiln_stacks) status = 4;
#endif
    for (kiln_block.z = 0; kiln_block.z < grid[2]; ++kiln_block.z)
        for (kiln_block.y = 0; kiln_block.y < grid[1]; ++kiln_block.y)
            for (kiln_block.x = 0; kiln_block.x < grid[0] && status == 0; ++kiln_block.x) {
#ifdef KILN_FIBERS
                status = kiln_run_block(threads);
#else
                for (kiln_thread.z = 0; kiln_thread.z < block[2]; ++kiln_thread.z)
                    for (kiln_thread.y = 0; kiln_thread.y < block[1]; ++kiln_thread.y)
                        for (kiln_thread.x = 0; kiln_thread.x < block[0]; ++kiln_thread.x) kiln_body();
#endif
            }
#ifdef KILN_FIBERS
    free(kiln_fibers);
    free(kiln_stacks);
#endif
    return status;
}
