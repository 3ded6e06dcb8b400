"""What of an instance goes on while another part of it waits."""
