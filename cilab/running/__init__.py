"""A plan, a benchmark and the engine, put together: play, forecast, status, and second looks at stored rollouts.

May import everything below it but statistics and figures.
"""
